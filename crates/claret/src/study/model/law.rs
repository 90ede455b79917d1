//! Notation of a time on the command line: a constant, a distribution, or measured values.

use ::model::Law;
use probe_data::law::{Of, weights};
use std::path::Path;

/// Parses a time in milliseconds.
pub fn parse_ms(text: &str) -> Result<f64, String> {
    bench::args::parse_duration(text).map(|duration| duration.as_secs_f64() * 1e3)
}

/// Parses the distribution of a round trip.
pub fn parse_law(text: &str) -> Result<Law, String> {
    parse(text, Of::RoundTrip)
}

/// Parses the distribution of a durable log write.
pub fn parse_disk(text: &str) -> Result<Law, String> {
    parse(text, Of::DiskWrite)
}

fn told(law: Result<Law, ::model::Invalid>) -> Result<Law, String> {
    law.map_err(|error| error.to_string())
}

fn parse(text: &str, of: Of) -> Result<Law, String> {
    let two = |text: &str, between| {
        let parts = text.split_once(between);
        let (low, high) = parts.ok_or_else(|| format!("two times with {between:?} between"))?;
        Ok::<_, String>((parse_ms(low)?, parse_ms(high)?))
    };
    match text.split_once(':') {
        Some(("uniform", rest)) => two(rest, '-').and_then(|(a, b)| told(Law::uniform(a, b))),
        Some(("normal", rest)) => two(rest, ',').and_then(|(a, b)| told(Law::normal(a, b))),
        Some(("exp", rest)) => parse_ms(rest).and_then(|mean| told(Law::exponential(mean))),
        _ => match parse_ms(text) {
            Ok(ms) => told(Law::constant(ms)),
            Err(error) => measured(text, of, &error),
        },
    }
}

fn measured(text: &str, of: Of, no_time: &str) -> Result<Law, String> {
    if Path::new(text).is_dir() {
        return of_data(Path::new(text), of, None);
    }
    let parts: Vec<&str> = text.rsplitn(3, ',').collect();
    if let [to, from, folder] = parts[..]
        && Path::new(folder).is_dir()
    {
        return of_data(Path::new(folder), of, Some((from, to)));
    }
    let content = std::fs::read_to_string(text)
        .map_err(|error| format!("{no_time}; it cannot be read as a file either: {error}"))?;
    let lines = content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let bars = lines.map(|(number, line)| {
        bar(line).ok_or_else(|| {
            let at = number + 1;
            format!("{text}:{at}: not a number of milliseconds, nor a number and a count")
        })
    });
    let bars = bars.collect::<Result<Vec<(f64, f64)>, String>>()?;
    Law::histogram(&bars).map_err(|error| format!("{text}: {error}"))
}

/// Parses a line of a file: milliseconds, and their count, by default one.
fn bar(line: &str) -> Option<(f64, f64)> {
    let mut words =
        line.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let ms = words.next()?.parse().ok()?;
    let weight = words.next().map_or(Ok(1.0), str::parse).ok()?;
    words.next().is_none().then_some((ms, weight))
}

fn of_data(folder: &Path, of: Of, pair: Option<(&str, &str)>) -> Result<Law, String> {
    let found = weights(folder, of, pair).map_err(|error| error.to_string())?;
    for file in &found.excluded.files {
        eprintln!("left out: {}", file.detail);
    }
    Law::histogram(&found.bars).map_err(|error| format!("{}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_can_be_laws_or_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rtt");
        std::fs::write(&path, "1\n\n3.5\n").unwrap();
        let law = parse_law(path.to_str().unwrap()).unwrap();
        assert!((law.mean_ms() - 2.25).abs() < 1e-12);
        std::fs::write(&path, "1 30\n2,10\n").unwrap();
        let law = parse_law(path.to_str().unwrap()).unwrap();
        assert!((law.mean_ms() - 1.25).abs() < 1e-12 && (law.cdf(1.0) - 0.75).abs() < 1e-12);
        for wrong in ["1\nfast\n", "1\n2 3 4\n", "1\n2 x\n", "1\n2 0\n", "1\n-2\n"] {
            std::fs::write(&path, wrong).unwrap();
            let error = parse_law(path.to_str().unwrap()).unwrap_err();
            assert!(error.contains(":2:") || error.contains("rtt: "), "{error}");
        }
        assert!((parse_law("exp:500us").unwrap().mean_ms() - 0.5).abs() < 1e-12);
        assert!((parse_law("normal:50ms,1ms").unwrap().mean_ms() - 50.0).abs() < 1e-9);
        for wrong in ["uniform:20ms-10ms", "uniform:1ms", "exp:x", "no such file", "nofolder,a,b"] {
            assert!(parse_law(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_can_be_what_the_probe_measured() {
        let folder = tempfile::tempdir().unwrap();
        let csv = folder.path().join("calls.csv");
        let rows = (0..50).map(|at| format!("{at},a,b,{}\n{at},b,a,10\n", 1 + at % 2));
        std::fs::write(&csv, rows.collect::<String>()).unwrap();
        let data = folder.path().join("data");
        let units = probe_data::import::Units { time_ns: 1e9, latency_ns: 1e6 };
        probe_data::import::import(&csv, units, "x", &data, &probe_data::progress::Silent).unwrap();
        let data = data.to_str().unwrap();
        let near = |law: Law, ms: f64| (law.mean_ms() / ms - 1.0).abs() < 0.003;
        assert!(near(parse_law(data).unwrap(), 5.75));
        assert!(near(parse_law(&format!("{data},a,b")).unwrap(), 1.5));
        assert!(parse_law(&format!("{data},a,c")).unwrap_err().contains("its nodes are a, b"));
        assert!(parse_disk(data).unwrap_err().contains("no answered call of this kind"));
    }
}
