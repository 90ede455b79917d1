//! The reference of all commands as pages: an index, a page for each group of commands, one on commands
//! that commute, and one on the lock modes. The binary prints all of it as one text.

/// Folder of the pages; nothing else is in it.
pub const FOLDER: &str = "docs/reference/commands";

const HEAD: &str = "These pages are generated from the command table by `cargo xtask docs`.";
const TABLE: &str = "| group | commands |\n|---|---|\n";

/// Names of files in [`FOLDER`] and their texts, from the text of all commands.
pub fn pages(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut sections = text.split("\n## ");
    let head = sections.next().unwrap_or_default();
    let mut pages = vec![("README.md".to_owned(), index(head)?)];
    for section in sections {
        let (title, body) = section.split_once('\n').ok_or("a section has no text")?;
        let name = title.strip_suffix(" commands").unwrap_or(title);
        let body = body.trim().replace("### ", "## ");
        pages.push((file(name), format!("# {title}\n\n{}{body}\n", note(title))));
    }
    Ok(pages)
}

/// File of a group, or of another page.
fn file(name: &str) -> String {
    format!("{}.md", name.to_lowercase().replace(' ', "-"))
}

/// Explanation at the top of a group's page.
fn note(title: &str) -> &'static str {
    if title.ends_with(" commands") {
        "Generated from the command table; [the index](README.md) explains the notation.\n\n"
    } else {
        ""
    }
}

/// Subject of a page that has no commands.
fn about(name: &str) -> &'static str {
    match name {
        "Commuting" => "which commands two transactions can call on one key without waiting",
        _ => "which accesses to one key go ahead beside each other",
    }
}

/// The index: the notation, which the text begins with, and its list of groups as a table.
fn index(head: &str) -> Result<String, String> {
    let (intro, list) = head.split_once("\n- ").ok_or("the text has no list of groups")?;
    let mut parts = intro.trim_end().split("\n\n");
    let title = parts.next().unwrap_or_default();
    let notation: Vec<_> = parts.filter(|part| !part.starts_with("This page")).collect();
    let mut page = format!("{title}\n\n{HEAD}\n\n{}\n\n{TABLE}", notation.join("\n\n"));
    for line in list.trim_end().split("\n- ") {
        let name = line.strip_prefix('[').and_then(|line| line.split_once(']'));
        let (name, _) = name.ok_or_else(|| format!("a group has no name: {line}"))?;
        let page_of = file(name);
        let commands = match line.split_once("): ") {
            Some((_, commands)) => commands.replace("](#", &format!("]({page_of}#")),
            None => about(name).to_owned(),
        };
        page.push_str(&format!("| [{name}]({page_of}) | {commands} |\n"));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Commands\n\nThis page is made.\n\nHow to read it.\n\n- [Set](#set-commands): \
                        [sadd](#sadd), [spop](#spop)\n- [Lock modes](#lock-modes)\n\n\
                        ## Set commands\n\n### sadd\n\nAdds.\n\n### spop\n\nTakes.\n\n\
                        ## Lock modes\n\nA table.\n\n### Modes of set\n\n| | |\n";

    #[test]
    fn each_group_is_a_page_and_the_index_links_its_commands() {
        let pages = pages(TEXT).unwrap();
        let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["README.md", "set.md", "lock-modes.md"]);
        let index = "\n\nHow to read it.\n\n| group | commands |\n|---|---|\n\
                     | [Set](set.md) | [sadd](set.md#sadd), [spop](set.md#spop) |\n\
                     | [Lock modes](lock-modes.md) | which accesses to one key go ahead beside \
                     each other |\n";
        assert_eq!(pages[0].1, format!("# Commands\n\n{HEAD}{index}"));
        assert!(pages[1].1.starts_with("# Set commands\n\nGenerated"), "{}", pages[1].1);
        assert!(pages[1].1.ends_with("\n\n## sadd\n\nAdds.\n\n## spop\n\nTakes.\n"));
        assert_eq!(pages[2].1, "# Lock modes\n\nA table.\n\n## Modes of set\n\n| | |\n");
    }

    #[test]
    fn a_text_without_groups_is_refused() {
        assert!(pages("# Commands\n").is_err());
    }
}
