//! Escaping of texts from files for the page, in this module only.

use serde_json::Value;

/// Escapes text for HTML, within an element or within a quoted attribute.
pub fn html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            // Characters that change the direction of the following text, or that are invisible.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => safe.push('\u{fffd}'),
            letter if letter.is_control() && letter != '\n' => safe.push('\u{fffd}'),
            letter => safe.push(letter),
        }
    }
    safe
}

/// Escapes a document for a script element: characters that could end the element, or a line, are
/// written as digits. JSON has none of them outside strings, so the document keeps its meaning.
pub fn json(value: &Value) -> String {
    let text = value.to_string();
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                safe += &format!("\\u{:04x}", u32::from(letter));
            }
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn html_has_no_letter_left_that_means_something() {
        assert_eq!(html("<b a=\"x\" b='y'>&"), "&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;");
        assert_eq!(html("a\u{202e}b\u{7}"), "a\u{fffd}b\u{fffd}");
        assert_eq!(html("Zürich 東京"), "Zürich 東京");
    }

    #[test]
    fn a_document_in_a_script_reads_as_before_and_cannot_end_it() {
        let value = json!({ "</script>": ["<!--", "&amp;", "\u{2028}\u{2029}", "a\"b\\"] });
        let text = json(&value);
        assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
