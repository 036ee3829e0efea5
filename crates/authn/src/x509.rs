//! The user in a client certificate.
//!
//! Purpose: turn a certificate whose chain the TLS layer has verified into the user that
//! kube-apiserver sees in it: CN is the name, each O a group.
//! Invariant: nothing is verified here; hand in only the leaf of a verified chain.
//! Upstream counterpart: `x509.CommonNameUserConversion` and `group.AuthenticatedGroupAdder`.

use portcullis_core::{Error, UserInfo};
use sha2::{Digest as _, Sha256};
use x509_parser::asn1_rs::{Any, Oid, Tag, oid};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::add_authenticated_group;

/// Key in a user's extra under which the certificate's fingerprint stands.
pub const CREDENTIAL_ID_KEY: &str = "authentication.kubernetes.io/credential-id";

const COMMON_NAME: Oid<'static> = oid!(2.5.4.3);
const ORGANIZATION: Oid<'static> = oid!(2.5.4.10);
/// Kubernetes' own element of a distinguished name: the user's UID.
const UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// The user in `der`, or `None` if the certificate names none (no or empty CN).
///
/// # Errors
/// 401 if the certificate cannot be read, or has several UIDs or an empty one.
pub fn user_from_certificate(der: &[u8]) -> Result<Option<UserInfo>, Error> {
    let (rest, certificate) = X509Certificate::from_der(der)
        .map_err(|error| refused(format!("the client certificate cannot be read: {error}")))?;
    if !rest.is_empty() {
        return Err(refused(
            "the client certificate is followed by other bytes".to_owned(),
        ));
    }
    let mut user = UserInfo::default();
    let mut uids = Vec::new();
    for attribute in certificate.subject().iter_attributes() {
        let oid = attribute.attr_type();
        // All values are decoded: upstream refuses a certificate with an unreadable one anywhere.
        let value = text(attribute.attr_value())?;
        if *oid == COMMON_NAME {
            user.username = value;
        } else if *oid == ORGANIZATION {
            user.groups.push(value);
        } else if *oid == UID {
            uids.push(value);
        }
    }
    if user.username.is_empty() {
        return Ok(None);
    }
    user.uid = match uids.as_slice() {
        [] => String::new(),
        [uid] if !uid.is_empty() => uid.clone(),
        [_] => return Err(refused("UID cannot be an empty string".to_owned())),
        _ => {
            return Err(refused(format!(
                "expected 1 UID, but found multiple: {}",
                uids.len()
            )));
        }
    };
    let fingerprint: String = Sha256::digest(der)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let id = format!("X509SHA256={fingerprint}");
    user.extra.insert(CREDENTIAL_ID_KEY.to_owned(), vec![id]);
    add_authenticated_group(&mut user);
    Ok(Some(user))
}

/// A string of a distinguished name, in any of the types that Go reads.
fn text(value: &Any<'_>) -> Result<String, Error> {
    let bytes = value.data;
    let ascii = |allowed: fn(&u8) -> bool| {
        bytes
            .iter()
            .all(allowed)
            .then(|| bytes.iter().map(|b| char::from(*b)).collect())
    };
    let read = match value.tag() {
        Tag::Utf8String => String::from_utf8(bytes.to_vec()).ok(),
        Tag::PrintableString => {
            ascii(|b| b.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(b))
        }
        Tag::Ia5String => ascii(u8::is_ascii),
        Tag::NumericString => ascii(|b| b.is_ascii_digit() || *b == b' '),
        // Read as Latin-1, as most of the world does.
        Tag::T61String => ascii(|_| true),
        Tag::BmpString => bmp(bytes),
        _ => None,
    };
    read.ok_or_else(|| {
        refused(format!(
            "the client certificate's subject has an unreadable {} value",
            value.tag()
        ))
    })
}

/// UCS-2, big endian, without surrogates and non-characters; one terminator may follow.
fn bmp(bytes: &[u8]) -> Option<String> {
    let (pairs, []) = bytes.as_chunks::<2>() else {
        return None;
    };
    let mut points: Vec<u16> = pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect();
    if points.last() == Some(&0) {
        points.pop();
    }
    let character = |point: u16| match point {
        0xfdd0..=0xfdef | 0xfffe | 0xffff => None,
        point => char::from_u32(u32::from(point)),
    };
    points.into_iter().map(character).collect()
}

fn refused(why: String) -> Error {
    Error::unauthorized().with_detail(why)
}

#[cfg(test)]
mod tests;
