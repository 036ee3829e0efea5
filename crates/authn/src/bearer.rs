//! The bearer token of a request.
//!
//! Purpose: find the one token kube-apiserver would authenticate: in the first `Authorization`
//! header or, for browsers, which cannot set that header, in a WebSocket subprotocol.
//! Invariant: what is returned can be sent on as `Authorization: Bearer <token>` and will be read
//! there as the very same token, which is why it has visible ASCII characters only.
//! Upstream counterpart: `authentication/request/bearertoken` and `.../websocket`.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderMap, HeaderValue};
use portcullis_core::{Error, Redacted};

/// Longest token that is looked at. Service account tokens have about 1 KiB; tokens of identity
/// providers with hundreds of groups have been seen with 20.
pub const MAX_TOKEN_BYTES: usize = 32 * 1024;

/// Start of the subprotocol that carries a token.
pub const PROTOCOL_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// As Go's `RawURLEncoding`: no padding, and unused bits of the last character do not matter.
const PROTOCOL_BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// A token and what its removal leaves of the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    /// The token, not yet checked by anyone.
    pub token: Redacted<String>,
    /// If set, the one value that `Sec-WebSocket-Protocol` must have from now on: the client's
    /// protocols without the token.
    pub websocket_protocols_left: Option<HeaderValue>,
}

/// Finds the token of a request; `None` if it has none, which is not an error.
///
/// A token in `Authorization` wins over one in a subprotocol, and the latter is taken off all the
/// same, so that a request never travels on with two credentials.
///
/// # Errors
/// 401 for a token that cannot be one; the detail says why.
pub fn extract(headers: &HeaderMap, is_websocket_upgrade: bool) -> Result<Option<Bearer>, Error> {
    let from_header = from_authorization(headers)?;
    let from_protocol = if is_websocket_upgrade {
        from_protocols(headers)?
    } else {
        ProtocolToken::default()
    };
    let Some(token) = from_header.or(from_protocol.token) else {
        return Ok(None);
    };
    check(&token)?;
    Ok(Some(Bearer {
        token: Redacted::new(token),
        websocket_protocols_left: from_protocol.protocols_left,
    }))
}

/// The second word of the first `Authorization` header if the first word is `bearer`.
fn from_authorization(headers: &HeaderMap) -> Result<Option<String>, Error> {
    let Some(value) = headers.get(AUTHORIZATION) else {
        return Ok(None);
    };
    let value = value.as_bytes().trim_ascii();
    let mut words = value.split(|b| *b == b' ');
    let is_bearer = words
        .next()
        .is_some_and(|word| word.eq_ignore_ascii_case(b"bearer"));
    match words.next() {
        // Two spaces make the second word empty: no token, as upstream.
        Some(token) if is_bearer && !token.is_empty() => String::from_utf8(token.to_vec())
            .map(Some)
            .map_err(|_| refused("the bearer token is not text")),
        _ => Ok(None),
    }
}

#[derive(Default)]
struct ProtocolToken {
    token: Option<String>,
    protocols_left: Option<HeaderValue>,
}

/// The token among the subprotocols of a WebSocket request.
fn from_protocols(headers: &HeaderMap) -> Result<ProtocolToken, Error> {
    let mut encoded = None;
    let mut left: Vec<&[u8]> = Vec::new();
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL);
    for protocol in values
        .iter()
        .flat_map(|value| value.as_bytes().split(|b| *b == b','))
    {
        let protocol = protocol.trim_ascii();
        match protocol.strip_prefix(PROTOCOL_PREFIX.as_bytes()) {
            Some(_) if encoded.is_some() => {
                return Err(refused(
                    "multiple base64.bearer.authorization tokens specified",
                ));
            }
            Some(token) => encoded = Some(token),
            None if protocol.is_empty() => {}
            None => left.push(protocol),
        }
    }
    let Some(encoded) = encoded.filter(|encoded| !encoded.is_empty()) else {
        return Ok(ProtocolToken::default());
    };
    if encoded.len() > MAX_TOKEN_BYTES * 4 / 3 + 4 {
        return Err(refused("the bearer token is too long"));
    }
    let decoded = PROTOCOL_BASE64
        .decode(encoded)
        .map_err(|_| refused("invalid base64.bearer.authorization token encoding"))?;
    let token = String::from_utf8(decoded)
        .map_err(|_| refused("invalid base64.bearer.authorization token"))?;
    if left.is_empty() {
        return Err(refused("missing additional subprotocol"));
    }
    let protocols_left = HeaderValue::from_bytes(&left.join(&b","[..]))
        .map_err(|_| refused("the subprotocols are not text"))?;
    Ok(ProtocolToken {
        token: Some(token),
        protocols_left: Some(protocols_left),
    })
}

fn check(token: &str) -> Result<(), Error> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(refused("the bearer token is too long"));
    }
    if !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(refused(
            "the bearer token has a character that no token has",
        ));
    }
    Ok(())
}

fn refused(why: &str) -> Error {
    Error::unauthorized().with_detail(why)
}

#[cfg(test)]
mod tests;
