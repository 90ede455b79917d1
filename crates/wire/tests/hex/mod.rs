//! Fixtures: hexadecimal digits, with comments behind `#`.

/// The bytes of a fixture.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits: String = text.lines().flat_map(|l| l.split('#').next()).collect();
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
