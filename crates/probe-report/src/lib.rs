//! One page about the probe's measurements: a file for a browser, without server and network.
//!
//! The page is made from two documents, that of `claret probe analyze` and that of `claret probe
//! calibrate`, and computes nothing that is not in them: it selects ([`shrink`]), describes
//! ([`words`]) and lays out ([`tables`]). A small script draws the figures in the browser from the
//! numbers that the page carries, because most of them are interactive.
//!
//! Names of nodes come from files and are untrusted: they pass through [`escape`] alone. The page's
//! content security policy also forbids everything but its own script and style.

mod escape;
mod shrink;
mod tables;
mod words;

use serde_json::Value;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
/// Scripts for axes, marks and controls; then for the figures that use them.
const SCRIPTS: [&str; 3] =
    [include_str!("page/draw.js"), include_str!("page/figures.js"), include_str!("page/grids.js")];

/// Builds the page, from the document of `analyze` and that of `calibrate`.
pub fn page(found: &Value, calibrated: &Value) -> String {
    let title = words::title(found);
    let findings = words::findings(found, calibrated);
    let carried = escape::json(&shrink::shrink(found, calibrated));
    let parts = [
        ("title", escape::html(&title)),
        ("style", STYLE.to_owned()),
        ("about", words::about(found)),
        ("findings", tables::list_of(&findings)),
        ("timers", tables::timers(found, calibrated)),
        ("settings", tables::settings(calibrated)),
        ("wanted", words::wanted(calibrated)),
        ("likelihoods", tables::likelihoods(calibrated)),
        ("hedges", tables::hedges(found, calibrated)),
        ("excluded", tables::excluded(found)),
        ("data", carried),
        ("script", SCRIPTS.concat()),
    ];
    fill(PAGE, &parts)
}

/// Inserts the parts where the template has their names in double braces. Inserted text is not
/// searched again, so that a part may contain anything.
fn fill(template: &str, parts: &[(&str, String)]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else { break };
        text += before;
        for (_, part) in parts.iter().filter(|(known, _)| *known == name) {
            text += part;
        }
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_filled_in_is_not_filled_again() {
        let parts = [("a", "{{b}}".to_owned()), ("b", "secret".to_owned())];
        assert_eq!(fill("<{{a}}|{{b}}>", &parts), "<{{b}}|secret>");
    }

    #[test]
    fn a_hostile_name_is_text_and_nothing_else() {
        let name = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u{2028}{{data}}";
        let found = json!({
            "data": { "deployment": name, "nodes": [name], "origin": "measured" },
            "slow_nodes": { "action": { "nodes": [
                { "name": name, "node": 0, "observations": 3, "slow_observations": 3 },
            ], "sets": [] } },
            "excluded": { "files": [
                { "file": name, "reason": name, "detail": name, "size_bytes": 1 },
            ], "rows": { name: 1 } },
        });
        let calibrated = json!({ "settings": [
            { "system": name, "name": name, "value": name, "note": name },
        ] });
        let page = page(&found, &calibrated);
        let harmless = self::page(&json!({}), &json!({}));
        for word in ["<script", "</script", "<img", "onerror=alert(2)>"] {
            let count = |page: &str| page.matches(word).count();
            assert_eq!(count(&page), count(&harmless), "{word}");
        }
        assert!(!page.contains('\u{2028}') || page.contains("&lt;img"), "only as text of the page");
        assert!(page.contains("&lt;/script&gt;"));
    }

    #[test]
    fn documents_with_nothing_in_them_make_a_page_that_says_so() {
        let page = page(&json!({}), &json!({}));
        assert!(page.contains("No node is slow") && page.contains("Nothing was left out"));
        assert!(!page.contains("{{"), "every part is there");
    }

    #[test]
    fn the_page_asks_nothing_of_a_network() {
        let page = page(&json!({}), &json!({}));
        assert!(page.contains("default-src 'none'"));
        let text = page.replace("http://www.w3.org/2000/svg", "");
        for word in ["http:", "https:", "src=", "@import", "url(", "fetch("] {
            assert!(!text.contains(word), "{word}");
        }
    }
}
