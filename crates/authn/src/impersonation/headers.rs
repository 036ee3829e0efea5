//! Writing an identity into the headers of an upstream request.

use http::{HeaderMap, HeaderName, HeaderValue};
use portcullis_core::{Error, UserInfo};

use super::{EXTRA_PREFIX, GROUP, Impersonation, UID, USER, extra_key};
use crate::identity_headers;

/// Makes the request one that impersonates `user`: the gateway's own credential goes with it.
///
/// All identity headers that were there are removed first.
///
/// # Errors
/// 403 if a value would not arrive as it is; an internal error for a user without a name. The
/// headers are unchanged then, and the request must not be sent.
pub fn write_headers(user: &UserInfo, headers: &mut HeaderMap) -> Result<(), Error> {
    if user.username.is_empty() {
        // Without a name there is no impersonation: the request would run as the gateway itself.
        return Err(Error::internal(
            "an identity without a name reached the upstream's headers",
        ));
    }
    let mut written = vec![(
        HeaderName::from_static(USER),
        encoded("name", &user.username)?,
    )];
    if !user.uid.is_empty() {
        written.push((HeaderName::from_static(UID), encoded("uid", &user.uid)?));
    }
    for group in &user.groups {
        written.push((HeaderName::from_static(GROUP), encoded("group", group)?));
    }
    for (key, values) in &user.extra {
        let name = format!("{EXTRA_PREFIX}{}", extra_key::escape(key));
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused("extra key"))?;
        for value in values {
            written.push((name.clone(), encoded("extra value", value)?));
        }
    }
    identity_headers::strip(headers);
    for (name, value) in written {
        headers
            .try_append(name, value)
            .map_err(|_| refused("number of attributes"))?;
    }
    Ok(())
}

/// Sends a client's wish on, for an upstream that checks it against the client's own credential.
///
/// # Errors
/// As [`write_headers`]; does not happen for what [`super::parse`] returned.
pub fn forward_headers(wish: &Impersonation, headers: &mut HeaderMap) -> Result<(), Error> {
    write_headers(wish.wanted(), headers)
}

/// `text` as a header's value, if the receiver will read the same text: white space at the ends
/// is not part of a value, and control characters are not allowed in one.
pub(super) fn value(text: &str) -> Option<HeaderValue> {
    let trimmed = text.trim_matches([' ', '\t']);
    (trimmed.len() == text.len())
        .then(|| HeaderValue::from_bytes(text.as_bytes()).ok())
        .flatten()
}

fn encoded(what: &str, text: &str) -> Result<HeaderValue, Error> {
    value(text).ok_or_else(|| refused(what))
}

fn refused(what: &str) -> Error {
    Error::forbidden(format!("the caller's {what} cannot be passed on to the cluster"))
        .with_detail("it has a control character, or white space at an end; Impersonate mode needs values that fit into a header")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use rstest::rstest;

    use super::super::parse;
    use super::*;

    fn user(name: &str) -> UserInfo {
        UserInfo {
            username: name.to_owned(),
            ..UserInfo::default()
        }
    }

    fn written(user: &UserInfo) -> HeaderMap {
        let mut headers = HeaderMap::new();
        write_headers(user, &mut headers).unwrap();
        headers
    }

    #[test]
    fn each_attribute_has_its_header() {
        let headers = written(&UserInfo {
            username: "alice".to_owned(),
            uid: "u".to_owned(),
            groups: vec!["a,b".to_owned(), "c".to_owned()],
            extra: BTreeMap::from([("acme.io/k".to_owned(), vec!["v".to_owned(), "w".to_owned()])]),
        });
        let shown: Vec<_> = headers
            .iter()
            .map(|(n, v)| (n.as_str(), v.to_str().unwrap()))
            .collect();
        assert_eq!(
            shown,
            [
                ("impersonate-user", "alice"),
                ("impersonate-uid", "u"),
                ("impersonate-group", "a,b"),
                ("impersonate-group", "c"),
                ("impersonate-extra-acme.io%2fk", "v"),
                ("impersonate-extra-acme.io%2fk", "w"),
            ]
        );
    }

    /// What a client wrote is gone, also where the new identity has nothing to put in its place.
    #[test]
    fn attack_headers_that_were_there_do_not_mix_with_the_new_identity() {
        let mut headers = HeaderMap::new();
        for name in [
            "impersonate-user",
            "impersonate-group",
            "impersonate-uid",
            "impersonate-extra-a",
            "impersonate_user",
            "x-remote-user",
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(""));
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static("system:masters"),
            );
        }
        headers.append("connection", HeaderValue::from_static("Impersonate-User"));
        write_headers(&user("alice"), &mut headers).unwrap();
        assert_eq!(headers, written(&user("alice")));
        assert_eq!(headers.len(), 1);
    }

    #[test]
    fn attack_a_user_without_a_name_is_never_written() {
        let mut headers = HeaderMap::new();
        let nameless = UserInfo {
            groups: vec!["g".to_owned()],
            ..UserInfo::default()
        };
        assert_eq!(
            write_headers(&nameless, &mut headers)
                .unwrap_err()
                .status
                .code,
            500
        );
        assert!(headers.is_empty());
    }

    #[rstest]
    #[case(" alice")]
    #[case("alice\t")]
    #[case("alice\r\nImpersonate-Group: system:masters")]
    #[case("alice\0")]
    fn attack_a_value_that_another_hop_reads_differently_is_refused(#[case] text: &str) {
        let mut users = vec![user(text)];
        users.push(UserInfo {
            uid: text.to_owned(),
            ..user("a")
        });
        users.push(UserInfo {
            groups: vec!["g".to_owned(), text.to_owned()],
            ..user("a")
        });
        let extra = BTreeMap::from([("k".to_owned(), vec![text.to_owned()])]);
        users.push(UserInfo { extra, ..user("a") });
        for user in users {
            let mut headers = HeaderMap::new();
            assert_eq!(
                write_headers(&user, &mut headers).unwrap_err().status.code,
                403
            );
            assert!(headers.is_empty());
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        "\\PC{1,12}".prop_filter("fits into a header", |text| value(text).is_some())
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_is_read(
            username in any_text(),
            uid in any_text(),
            groups in prop::collection::vec(any_text(), 0..4),
            extra in prop::collection::btree_map("\\PC{0,10}", prop::collection::vec(any_text(), 1..3), 0..4),
        ) {
            let user = UserInfo { username, uid, groups, extra };
            let read = parse(&written(&user)).unwrap().unwrap();
            prop_assert_eq!(read.wanted(), &user);
            let mut forwarded = HeaderMap::new();
            forward_headers(&read, &mut forwarded).unwrap();
            prop_assert_eq!(forwarded, written(&user));
        }
    }
}
