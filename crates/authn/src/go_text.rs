//! Go's way to write values into texts, where a text of ours must equal one of kube-apiserver's.

use std::fmt::Write as _;

use portcullis_core::UserInfo;

/// `%q`: a Go string literal.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            c if is_print(c) => out.push(c),
            c => {
                let code = u32::from(c);
                // Writing to a String cannot fail.
                let _ = match code {
                    0..=0x1f | 0x7f => write!(out, "\\x{code:02x}"),
                    0..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push('"');
    out
}

/// `strconv.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space.
fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || c.is_ascii_graphic();
    }
    // The standard library's table is private; `escape_debug` consults it. The leading letter
    // keeps it from escaping combining marks.
    format!("a{c}").escape_debug().count() == 2
}

/// `%#v` of a `*user.DefaultInfo`.
pub(crate) fn default_info(user: &UserInfo) -> String {
    let groups = strings(&user.groups);
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let pairs = user
            .extra
            .iter()
            .map(|(key, values)| format!("{}:{}", quote(key), strings(values)));
        format!(
            "map[string][]string{{{}}}",
            pairs.collect::<Vec<_>>().join(", ")
        )
    };
    let (name, uid) = (quote(&user.username), quote(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

fn strings(values: &[String]) -> String {
    if values.is_empty() {
        return "[]string(nil)".to_owned();
    }
    let quoted: Vec<String> = values.iter().map(|value| quote(value)).collect();
    format!("[]string{{{}}}", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::quote;

    #[rstest]
    #[case("", r#""""#)]
    #[case("it's", r#""it's""#)]
    #[case("a\"b\\c", r#""a\"b\\c""#)]
    #[case("\x07\x08\x0c\n\r\t\x0b", r#""\a\b\f\n\r\t\v""#)]
    #[case("\x01\x7f", r#""\x01\x7f""#)]
    #[case("\u{80}\u{a0}\u{200b}\u{feff}", r#""\u0080\u00a0\u200b\ufeff""#)]
    #[case("é e\u{301} 世 😀", "\"é e\u{301} 世 😀\"")]
    #[case("\u{e0001}", r#""\U000e0001""#)]
    fn strings_are_quoted_as_go_quotes_them(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(quote(text), expected);
    }
}
