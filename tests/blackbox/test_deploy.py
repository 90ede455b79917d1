"""What is in `deploy/`, and what the guide says about it, against the real program."""

import contextlib
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import time

import pytest
import redis
import yaml
from clusters import UP_S_MAX
from harness import ROOT, Server, binary, free_port, page, until

DEPLOY = ROOT / "deploy"
OPERATING = ROOT / "docs/operating"
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
USERS = '[[users]]\nname = "default"\npassword = "geheim"\nrules = ["on", "+@all", "~*", "&*"]\n'


def claret(*words, code=0):
    """Runs the program to its end; gives what it printed."""
    command = [binary(), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def complaint(*words):
    """What the program says when it refuses to do something."""
    done = subprocess.run([binary(), *words], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0, done.stdout
    return done.stderr


def flags():
    """The flags of `claret serve`."""
    return set(FLAG.findall(claret("serve", "--help")))


def misconfigured(config, folder):
    """What the program says is wrong with a configuration file; nothing if nothing is."""
    command = [binary(), "doctor", "--json", "--config", config, "--dir", folder / "data"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    findings = json.loads(done.stdout)["findings"]
    return [one["found"] for one in findings if one["check"] == "configuration"]


# --- The file to start from ---


def everything_switched_on():
    text = (DEPLOY / "claret.toml").read_text()
    return re.sub(r"^#(?=[a-z\[])", "", text, flags=re.MULTILINE)


def test_the_file_to_start_from_is_understood(tmp_path, make_server):
    text = (DEPLOY / "claret.toml").read_text()
    assert make_server(config=text).start().client().ping()
    everything = tmp_path / "everything.toml"
    # A user has one of the two.
    everything.write_text(re.sub("^password_hash.*$", "", everything_switched_on(), flags=re.M))
    assert misconfigured(everything, tmp_path) == []
    everything.write_text(everything.read_text().replace("bind =", "bnid ="))
    assert "bnid" in misconfigured(everything, tmp_path)[0]


def test_every_flag_is_a_setting_of_the_file():
    named = {"--node": "node", "--cluster": "nodes", "--cluster-name": "name"}
    named["--peer-bind"] = "bind"
    named |= {f"--peer-tls-{key}": key for key in ("cert", "key", "ca")}
    named["--peer-tls-server-name"] = "server_name"
    keys = set(re.findall(r"^(\w+) = ", everything_switched_on(), flags=re.MULTILINE))
    for flag in flags() - {"--config", "--help", "--version"}:
        assert named.get(flag, flag[2:].replace("-", "_")) in keys, flag


# --- systemd ---


def unit():
    """The settings of the unit, by name; what is there twice as a list in their order."""
    settings = {}
    for line in (DEPLOY / "systemd/claret.service").read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            name, value = line.split("=", 1)
            settings.setdefault(name, []).append(value)
    return settings


def test_the_unit_starts_and_stops_the_server(tmp_path):
    settings = unit()
    [start] = settings["ExecStart"]
    assert set(FLAG.findall(start)) <= flags()
    config = tmp_path / "claret.toml"
    port = free_port()
    config.write_text(f"port = {port}\n")
    start = start.replace("/usr/local/bin/claret", binary())
    start = start.replace("/etc/claret/claret.toml", str(config))
    start = start.replace("/var/lib/claret", str(tmp_path / "data"))
    assert str(tmp_path) in start and "/var" not in start.replace(str(tmp_path), "")
    process = subprocess.Popen(shlex.split(start), stdout=subprocess.PIPE, text=True)
    try:
        assert "ready" in process.stdout.readline()
        [stop] = settings["KillSignal"]
        process.send_signal(signal.Signals[stop])
        assert process.wait(int(settings["TimeoutStopSec"][0])) == 0
    finally:
        process.kill()
        process.wait()


def test_the_unit_does_not_try_again_what_cannot_succeed(tmp_path):
    not_again = unit()["RestartPreventExitStatus"][0].split()
    config = tmp_path / "claret.toml"
    config.write_text("prot = 1\n")
    claret("serve", "--config", config, "--dir", tmp_path / "data", code=int(not_again[0]))
    # A disk that takes no more: files may not grow beyond this size.
    port = free_port()
    words = [binary(), "serve", "--port", str(port), "--dir", str(tmp_path / "data")]
    script = f"trap '' XFSZ; ulimit -f 4096; exec {shlex.join(words)}"
    pipe = subprocess.PIPE
    process = subprocess.Popen(["sh", "-c", script], stdout=pipe, stderr=pipe, text=True)
    try:
        assert "ready" in process.stdout.readline()
        with redis.Redis(port=port) as client, pytest.raises(redis.ConnectionError):
            for at in range(100):
                client.set(f"key:{at}", "x" * 100_000)
        _, said = process.communicate(timeout=30)
        assert str(process.returncode) in not_again and process.returncode != 2, said
        assert "The server stops" in said
    finally:
        process.kill()
        process.wait()


def test_the_unit_is_understood_by_systemd(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    text = (DEPLOY / "systemd/claret.service").read_text()
    installed = tmp_path / "claret.service"
    installed.write_text(text.replace("/usr/local/bin/claret", binary()))
    command = ["systemd-analyze", "verify", str(installed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "claret.service" not in done.stderr, done.stderr


# --- Kubernetes ---


def manifests():
    """Everything in the manifests, by kind and name."""
    found = {}
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            metadata = document["metadata"]
            assert metadata.get("namespace", "claret") == "claret", path
            assert (document["kind"], metadata["name"]) not in found, path
            found[document["kind"], metadata["name"]] = document
    return found


def pod_and_container():
    template = manifests()["StatefulSet", "claret"]["spec"]["template"]
    [container] = template["spec"]["containers"]
    return template, container


def config_file():
    return manifests()["ConfigMap", "claret"]["data"]["claret.toml"]


def number_in(config, key):
    return int(re.search(rf"^{key} = (\d+)$", config, flags=re.MULTILINE)[1])


def machines_in(config):
    """The list of machines in the configuration: number, name and port."""
    found = re.findall(r'^(\d+) = "([\w.-]+):(\d+)"$', config, flags=re.MULTILINE)
    return [(int(number), name, int(port)) for number, name, port in found]


def test_the_manifests_agree_with_each_other():
    all_of_them = manifests()
    stateful = all_of_them["StatefulSet", "claret"]["spec"]
    template, container = pod_and_container()
    config = config_file()
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["clients"] == number_in(config, "port")
    assert ports["metrics"] == number_in(config, "metrics_port")

    service = stateful["serviceName"]
    assert machines_in(config) == [
        (at + 1, f"claret-{at}.{service}.claret.svc.cluster.local", ports["machines"])
        for at in range(stateful["replicas"])
    ]

    labels = template["metadata"]["labels"]
    assert stateful["selector"]["matchLabels"] == labels
    headless = all_of_them["Service", service]["spec"]
    assert headless["clusterIP"] == "None" and headless["publishNotReadyAddresses"] is True
    for name in ("claret", service):
        spec = all_of_them["Service", name]["spec"]
        assert spec["selector"] == labels
        for port in spec["ports"]:
            assert ports[port["targetPort"]] == port["port"]
    budget = all_of_them["PodDisruptionBudget", "claret"]["spec"]
    assert (budget["maxUnavailable"], budget["selector"]["matchLabels"]) == (1, labels)
    policy = all_of_them["NetworkPolicy", "claret"]["spec"]
    assert policy["podSelector"]["matchLabels"] == labels
    restricted, open_to_all = policy["ingress"]
    assert restricted["from"][0]["podSelector"]["matchLabels"] == labels
    assert [port["port"] for port in restricted["ports"]] == ["machines"]
    assert {port["port"] for port in open_to_all["ports"]} == set(ports) - {"machines"}

    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert template["spec"]["securityContext"]["runAsNonRoot"] is True
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    there = {volume["name"] for volume in template["spec"]["volumes"]}
    claims = {claim["metadata"]["name"] for claim in stateful["volumeClaimTemplates"]}
    assert mounted == there | claims
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] == "metrics"
        # The server itself waits two seconds for its workers.
        assert container[probe]["timeoutSeconds"] > 2


def test_the_configuration_of_the_pods_wants_users(tmp_path):
    config = tmp_path / "claret.toml"
    number = "[cluster]\nnode = 1\n"
    config.write_text(config_file().replace("[cluster]\n", number))
    assert "password" in misconfigured(config, tmp_path)[0]
    config.write_text(config.read_text() + USERS)
    assert misconfigured(config, tmp_path) == []


class Pod:
    """The container of a pod as a process of this machine: its own command, elsewhere."""

    def __init__(self, folder, ordinal, network, ports):
        self.host = f"{network}.{ordinal + 1}"
        self.ports = ports
        self.container = pod_and_container()[1]
        config = config_file()
        for name, port in ports.items():
            [named] = [p["containerPort"] for p in self.container["ports"] if p["name"] == name]
            config = re.sub(rf"\b{named}\b", str(port), config)
        config = config.replace("0.0.0.0", self.host)
        for number, name, _ in machines_in(config):
            config = config.replace(name, f"{network}.{number}")
        places = {mount["name"]: mount["mountPath"] for mount in self.container["volumeMounts"]}
        self.places = {}
        for name, place in places.items():
            self.places[place] = folder / name
            (folder / name).mkdir(parents=True)
        (folder / "config/claret.toml").write_text(config)
        (folder / "users/users.toml").write_text(USERS)
        (folder / "bin").mkdir()
        (folder / "bin/claret").symlink_to(binary())
        self.environment = {
            "POD_NAME": f"claret-{ordinal}",
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        }
        assert [one["name"] for one in self.container["env"]] == ["POD_NAME"]
        self.errors = folder / "stderr"
        self.process = None

    def start(self):
        command = self.container["command"]
        # The longest first: one may begin with another.
        for place in sorted(self.places, key=len, reverse=True):
            command = [word.replace(place, str(self.places[place])) for word in command]
        with open(self.errors, "ab") as errors:
            self.process = subprocess.Popen(
                command, env=self.environment, stdout=subprocess.DEVNULL, stderr=errors
            )

    def probe(self, name):
        where = self.container[name]["httpGet"]
        return page(self.ports[where["port"]], where["path"], self.host)[0]

    def url(self):
        return f"redis://default:geheim@{self.host}:{self.ports['clients']}"

    def client(self):
        return redis.Redis.from_url(self.url(), decode_responses=True, socket_timeout=20)

    def stop(self):
        self.process.terminate()
        return self.process.wait(self.grace_s())

    @staticmethod
    def grace_s():
        return pod_and_container()[0]["spec"]["terminationGracePeriodSeconds"]

    def said(self):
        return self.errors.read_text()


def machines(url):
    return json.loads(claret("cluster", "status", "--json", "--url", url))["machines"]


def whole(url):
    """Whether all machines are connected and all shards led, as one of them sees it."""
    with contextlib.suppress(AssertionError):
        seen = machines(url)
        led = sum(len(machine["leads"]) for machine in seen)
        return all(machine["connected"] for machine in seen) and led
    return 0


def test_pods_start_find_each_other_and_are_replaced_one_by_one(tmp_path):
    _, container = pod_and_container()
    [shell, _, script] = container["command"]
    assert shell == "/bin/sh" and set(FLAG.findall(script)) <= flags()
    # Every pod has an address of its own, and all have the same ports, as in a real one.
    network = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"
    ports = {port["name"]: free_port() for port in container["ports"]}
    assert len(set(ports.values())) == 3
    pods = [Pod(tmp_path / f"pod{ordinal}", ordinal, network, ports) for ordinal in range(3)]
    shards = number_in(config_file(), "shards")

    def ready(pod):
        assert pod.process.poll() is None, pod.said()
        probes = ("startupProbe", "readinessProbe", "livenessProbe")
        return all(pod.probe(name) == 200 for name in probes)

    def all_well():
        return all(ready(pod) for pod in pods) and whole(pods[0].url()) == shards

    try:
        for pod in pods:
            pod.start()
        until(all_well, UP_S_MAX, "three pods")
        assert [machine["machine"] for machine in machines(pods[2].url())] == [1, 2, 3]
        pods[0].client().set("here", "yes")
        # A rollout: the largest ordinal first, each ready before the next one is stopped.
        for pod in reversed(pods):
            assert pod.stop() == 0, pod.said()
            others = [other for other in pods if other is not pod]
            assert others[0].client().incr("rolled") == 3 - pods.index(pod)
            pod.start()
            until(lambda: ready(pod), UP_S_MAX, "the pod's return")
            assert pod.client().get("here") == "yes"
            assert "panicked" not in pod.said()
    finally:
        for pod in pods:
            if pod.process is not None:
                pod.process.kill()
                pod.process.wait()


# --- The files that claret cluster init writes ---


def test_a_cluster_is_founded_with_the_files_that_init_writes(tmp_path):
    into = tmp_path / "shop"
    places = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    # Three in a row, where neither `free_port` nor the system takes any.
    port = random.randrange(61_000, 65_000)
    words = ["cluster", "init", *places, "--into", str(into), "--port", str(port)]
    made = json.loads(claret(*words, "--json"))["machines"]
    assert [machine["clients"] for machine in made] == [f"127.0.0.1:{port + n}" for n in range(3)]
    assert "n1.toml already exists" in complaint(*words)
    assert all(pathlib.Path(machine["config"]).stat().st_mode & 0o077 == 0 for machine in made)
    started = []
    try:
        for machine in made:
            command = [binary(), "serve", "--config", machine["config"]]
            started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        url = f"redis://127.0.0.1:{port}"
        until(lambda: whole(url) == 3, UP_S_MAX, "the cluster")
        with redis.Redis(port=port) as one, redis.Redis(port=port + 2) as other:
            one.set("here", "yes")
            assert other.get("here") == b"yes"
    finally:
        for process in started:
            process.terminate()
        assert [process.wait(30) for process in started] == [0, 0, 0]


def test_files_for_machines_that_are_apart_ask_for_what_is_missing(tmp_path):
    places = [f"10.0.0.{number}:7001" for number in (1, 2, 3)]
    page = claret("cluster", "init", *places, "--into", str(tmp_path / "apart"))
    assert "copy each to its machine" in page
    first = (tmp_path / "apart/n1.toml").read_text()
    assert 'announce = "10.0.0.1:6380"' in first and "[cluster.tls]" in first
    assert "/etc/claret/" in complaint("serve", "--config", str(tmp_path / "apart/n1.toml"))
    wrong = tmp_path / "wrong"
    assert "'here' is not host:port" in complaint("cluster", "init", "here", "--into", str(wrong))
    assert not wrong.exists()


# --- The container image ---


def test_the_image_fits_the_manifests():
    text = (DEPLOY / "container/Containerfile").read_text()
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and line[0] != "#"]
    words = [line.split() for line in lines]
    assert all("." not in word[1].split(":")[0] for word in words if word[0] == "FROM")
    for copied in (word for word in words if word[0] == "COPY" and "--from" not in word[1]):
        assert all((ROOT / source).exists() for source in copied[1:-1]), copied
    [user] = [word[1] for word in words if word[0] == "USER"]
    context = pod_and_container()[0]["spec"]["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert ["STOPSIGNAL", "SIGTERM"] in words
    assert any("--locked" in word for word in words if word[0] == "RUN")
    [command] = [line for line in lines if line.startswith("CMD")]
    arguments = json.loads(command.removeprefix("CMD"))
    assert arguments[0] == "serve" and set(FLAG.findall(command)) <= flags()


# --- The guide ---


def test_the_guide_names_metrics_and_commands_that_exist(make_server, make_cluster):
    port, of_cluster = free_port(), free_port()
    server = make_server(config=f"metrics_port = {port}\n").start()
    server.client().set("a", 1)
    # Some are there only where there are other machines.
    cluster = make_cluster()
    cluster.nodes[0].flags += ["--metrics-port", str(of_cluster)]
    cluster.start()
    metrics = page(port, "/metrics")[1] + page(of_cluster, "/metrics")[1]
    # A histogram has a name of its own, and its numbers have others.
    there = set(re.findall(r"^(?:# TYPE )?(\w+)", metrics, flags=re.MULTILINE))
    guide = "".join(page.read_text() for page in sorted(OPERATING.glob("*.md")))
    texts = guide + (ROOT / "docs/locks/reference.md").read_text()
    named = set(re.findall(r"\b(?:claret|raft_engine)_\w+", texts))
    assert len(named) > 10 and named <= there, named - there
    actions = claret("cluster", "--help")
    for action in set(re.findall(r"claret cluster (\w+)", guide)):
        assert re.search(rf"^  {action}\b", actions, flags=re.MULTILINE), action


def fill(node, first):
    """Writes more than the log keeps, so that whoever lacks it needs a snapshot."""
    with node.client() as client:
        for at in range(first, first + 600):
            client.set(f"key:{at}", str(at) * 3000)


def test_a_machine_that_has_lost_its_disk_is_filled_again_as_the_guide_says(make_cluster):
    """The steps of "When a disk is lost"."""
    cluster = make_cluster(config='snapshot_log_bytes = "1mb"\n').start()
    first, second, third = cluster.nodes
    urls = [f"redis://127.0.0.1:{node.port}" for node in cluster.nodes]
    fill(first, 0)
    third.kill()
    shutil.rmtree(third.data)
    fill(first, 600)
    until(lambda: whole_without(urls[0], 3) == 3, UP_S_MAX, "leaders among the other two")

    # Every lead moves between the two that are left; only then is the empty one started.
    for number in (1, 2):
        claret("cluster", "drain", number, "--url", urls[0])
        until(lambda: whole_without(urls[0], 3) == 3, UP_S_MAX, "leaders of all shards")
        claret("cluster", "undrain", number, "--url", urls[0])
    third.start()
    until(lambda: whole(urls[0]) == 3, UP_S_MAX, "all machines")

    # It takes a lead as soon as it has everything.
    def leads_all():
        with contextlib.suppress(AssertionError):
            for shard in range(3):
                claret("cluster", "lead", shard, 3, "--url", urls[0])
            return True
        return False

    until(leads_all, UP_S_MAX, "the machine to have everything")
    assert "has sent a snapshot of shard" in third.said() and "panicked" not in third.said()
    second.kill()
    with third.client() as client:
        for at in range(0, 1200, 7):
            assert client.get(f"key:{at}") == str(at) * 3000


def whole_without(url, lost):
    """How many shards are led, if all machines but one are connected."""
    seen = [machine for machine in machines(url) if machine["machine"] != lost]
    led = sum(len(machine["leads"]) for machine in seen)
    return led if all(machine["connected"] for machine in seen) else 0
