"""Authorities, and the certificates that they issue."""

import pathlib
import subprocess

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
NAMES = "DNS:localhost,IP:127.0.0.1"


class Authority:
    """Issues certificates; its own is `ca.pem` in its folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.certificate = self.folder / "ca.pem"
        self._openssl("req", "-x509", *KEY, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
                      "-subj", "/CN=test authority")

    def _openssl(self, *words):
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def issue(self, name, folder=None, names=NAMES, days=2):
        """Writes `name.pem` and `name.key`. With no days it has expired a second later. Without names
        there are no extensions, and it is of X.509's first version."""
        stem = pathlib.Path(folder or self.folder) / name
        (self.folder / "names").write_text(f"subjectAltName={names}")
        extensions = ["-extfile", "names"] if names else []
        self._openssl("req", *KEY, "-keyout", f"{stem}.key", "-out", f"{stem}.csr",
                      "-subj", f"/CN={name}")
        self._openssl("x509", "-req", "-in", f"{stem}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                      "-CAcreateserial", "-out", f"{stem}.pem", "-days", str(days), *extensions)


def equip(node, by, trusts=None, **options):
    """Writes what a machine shows the others, issued `by` an authority, and whom it trusts."""
    by.issue("peer", node.folder, **options)
    trusted = "".join(one.certificate.read_text() for one in trusts or [by])
    (node.folder / "peer-ca.pem").write_text(trusted)


def encrypt(node):
    """Has a machine speak TLS with what `equip` has written."""
    for flag, file in (("cert", "peer.pem"), ("key", "peer.key"), ("ca", "peer-ca.pem")):
        node.flags += [f"--peer-tls-{flag}", str(node.folder / file)]
