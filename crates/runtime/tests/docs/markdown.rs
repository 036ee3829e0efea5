//! As much Markdown as the documents' test needs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A fenced block of a document.
pub(crate) struct Block {
    /// `FILE:LINE` of its first fence.
    pub(crate) place: String,
    pub(crate) info: String,
    pub(crate) text: String,
}

pub(crate) fn blocks(name: &str, text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in (1..).zip(text.lines()) {
        match (line.strip_prefix("```"), open.take()) {
            (Some(info), None) => {
                let (place, info) = (format!("{name}:{number}"), info.to_owned());
                open = Some(Block {
                    place,
                    info,
                    text: String::new(),
                });
            }
            (Some(_), Some(block)) => found.push(block),
            (None, Some(mut block)) => {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{name}: a block has no end");
    found
}

/// The text without its fenced blocks.
pub(crate) fn prose(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    text.split("```").step_by(2).collect()
}

pub(crate) fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1);
    targets
        .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .collect()
}

/// The anchors of a page's headings, as GitHub makes them.
pub(crate) fn headings(file: &Path) -> BTreeSet<String> {
    if !file.is_file() {
        return BTreeSet::new();
    }
    let anchor = |line: &str| -> String {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_');
        title.replace(' ', "-").chars().filter(kept).collect()
    };
    prose(file)
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(anchor)
        .collect()
}

/// What the rows of a page's tables are about: the code in their first cells.
pub(crate) fn rows(text: &str) -> impl Iterator<Item = String> + '_ {
    let cells = text
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| ")?.split_once(" |")?.0));
    let codes = cells.flat_map(|cell| cell.split(", "));
    let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '[' | ']');
    codes
        .filter_map(|code| code.strip_prefix('`')?.strip_suffix('`'))
        .filter(move |code| code.chars().all(name))
        .map(str::to_owned)
}
