//! What of a message's head belongs to one hop only, and what the next hop is told instead.

use std::net::IpAddr;

use http::header::{
    CONNECTION, EXPECT, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue};
use portcullis_authn::identity_headers;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const ALT_SVC: HeaderName = HeaderName::from_static("alt-svc");

/// Headers of one hop (RFC 9110 section 7.6.1) that are dropped whatever `Connection` says.
const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HTTP2_SETTINGS,
    TRAILER,
];

/// Makes a client's headers fit for the upstream.
///
/// Afterwards no identity of the client's making is left: what the upstream is to believe about
/// the caller is set by the caller of this function, and nothing named in `Connection` can remove
/// it again, because `Connection` was honoured first.
pub(super) fn clean_request(headers: &mut HeaderMap) {
    let trailers = headers
        .get_all(TE)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .any(|v| {
            v.split(',')
                .any(|t| t.trim().eq_ignore_ascii_case("trailers"))
        });
    strip_hop_by_hop(headers);
    identity_headers::strip(headers);
    for name in [HOST, EXPECT, PROXY_AUTHORIZATION, TE] {
        headers.remove(name);
    }
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Tells the upstream, for its audit log, where the request came from.
pub(super) fn name_peer(headers: &mut HeaderMap, peer: IpAddr) {
    if let Ok(value) = HeaderValue::try_from(peer.to_string()) {
        headers.insert(X_FORWARDED_FOR, value);
    }
}

/// Makes an upstream's headers fit for the client. Everything end-to-end stays as it is, repeated
/// headers (`Warning`, `Set-Cookie`) one by one; nothing is invented.
pub(super) fn clean_response(headers: &mut HeaderMap) {
    strip_hop_by_hop(headers);
    headers.remove(PROXY_AUTHENTICATE);
    // Names another way to the API server, around the gateway.
    headers.remove(ALT_SVC);
}

fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .filter_map(|token| HeaderName::try_from(token.trim()).ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn hop_by_hop_headers_and_those_named_in_connection_go() {
        let mut map = headers(&[
            ("connection", "keep-alive, X-Private"),
            ("connection", "close"),
            ("keep-alive", "timeout=5"),
            ("x-private", "1"),
            ("te", "gzip, trailers"),
            ("accept", "application/json"),
        ]);
        clean_request(&mut map);
        let mut left: Vec<_> = map.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "te"]);
        assert_eq!(map["te"], "trailers");
    }

    #[test]
    fn a_clients_claim_about_its_address_is_replaced() {
        let mut map = headers(&[
            ("x-forwarded-for", "6.6.6.6"),
            ("forwarded", "for=6.6.6.6"),
            ("x-forwarded-host", "evil"),
        ]);
        clean_request(&mut map);
        name_peer(&mut map, "192.0.2.7".parse().unwrap());
        assert_eq!(map.len(), 1);
        assert_eq!(map["x-forwarded-for"], "192.0.2.7");
    }

    #[test]
    fn repeated_answer_headers_stay_one_by_one() {
        let mut map = headers(&[
            ("warning", "299 - \"a\""),
            ("warning", "299 - \"b\""),
            ("retry-after", "7"),
        ]);
        clean_response(&mut map);
        assert_eq!(map.get_all("warning").iter().count(), 2);
        assert_eq!(map["retry-after"], "7");
    }
}
