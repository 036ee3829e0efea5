use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, DnValue, KeyPair,
    PKCS_ECDSA_P256_SHA256,
};
use rstest::rstest;

use super::*;

const UID_TYPE: &[u64] = &[1, 3, 6, 1, 4, 1, 57683, 2];

fn certificate(subject: &[(DnType, DnValue)]) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in subject {
        params.distinguished_name.push(kind.clone(), value.clone());
    }
    // An extension nobody knows must not matter.
    params.custom_extensions = vec![CustomExtension::from_oid_content(
        &[1, 3, 6, 1, 4, 1, 57683, 99],
        vec![5, 0],
    )];
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    params.self_signed(&key).unwrap().der().to_vec()
}

/// Subject `O=devs, O=ops, CN=first, CN=alice, UID=u-1`, made with openssl.
const TWO_GROUPS: &str = "\
     MIIBXzCCARECFDPPEl2FTITki1C7zyaPzTiDU1g/MAUGAytlcDBRMQ0wCwYDVQQKDARkZXZzMQwwCgYDVQQKDANv\
     cHMxDjAMBgNVBAMMBWZpcnN0MQ4wDAYDVQQDDAVhbGljZTESMBAGCSsGAQQBg8JTAgwDdS0xMCAXDTI2MTIwMTAy\
     NDcxNFoYDzIxMjYxMTA3MDI0NzE0WjBRMQ0wCwYDVQQKDARkZXZzMQwwCgYDVQQKDANvcHMxDjAMBgNVBAMMBWZp\
     cnN0MQ4wDAYDVQQDDAVhbGljZTESMBAGCSsGAQQBg8JTAgwDdS0xMCowBQYDK2VwAyEATd61s+zuPVGjq4edn5zd\
     iaqEJkQFW0oZktSaPiBWt9EwBQYDK2VwA0EABMM8tOx1Dyx8sEde+LdyNlnPVhWEd3Tvynp2rq9VLQEIYWiuHqy8\
     7I9pPFx/xb7hA7zE8YZHuqRYWPbbsLBdAw==\
     ";
/// The same with a second UID, `u-2`.
const TWO_UIDS: &str = "\
     MIIBhzCCATkCFFzUwxThXIs6MPSwcd78gtZiR310MAUGAytlcDBlMQ0wCwYDVQQKDARkZXZzMQwwCgYDVQQKDANv\
     cHMxDjAMBgNVBAMMBWZpcnN0MQ4wDAYDVQQDDAVhbGljZTESMBAGCSsGAQQBg8JTAgwDdS0xMRIwEAYJKwYBBAGD\
     wlMCDAN1LTIwIBcNMjYxMjAxMDI0NzE0WhgPMjEyNjExMDcwMjQ3MTRaMGUxDTALBgNVBAoMBGRldnMxDDAKBgNV\
     BAoMA29wczEOMAwGA1UEAwwFZmlyc3QxDjAMBgNVBAMMBWFsaWNlMRIwEAYJKwYBBAGDwlMCDAN1LTExEjAQBgkr\
     BgEEAYPCUwIMA3UtMjAqMAUGAytlcAMhAMTB4bLNGLtw9FsaYzA2FUmP7oJFSZnN+YU30WNec0WKMAUGAytlcANB\
     AHrm/x63edVUWYqPS0o03Q6K8RAbL1cJGL1slSqpq/4n4Aj5vSqnm4QxFLP0wiiS+omcM1LIq0MSWKpabOzfFQU=\
     ";

fn uid() -> DnType {
    DnType::CustomDnType(UID_TYPE.to_vec())
}

#[test]
fn common_name_organization_and_uid_make_the_user() {
    let der = certificate(&[
        (DnType::OrganizationName, "devs".into()),
        (DnType::CommonName, "alice".into()),
        (uid(), "u-1".into()),
    ]);
    let user = user_from_certificate(&der).unwrap().unwrap();
    assert_eq!(user.username, "alice");
    assert_eq!(user.uid, "u-1");
    assert_eq!(user.groups, ["devs", "system:authenticated"]);
    let fingerprint: String = Sha256::digest(&der)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    let expected = vec![format!("X509SHA256={fingerprint}")];
    assert_eq!(
        user.extra.into_iter().collect::<Vec<_>>(),
        [(CREDENTIAL_ID_KEY.to_owned(), expected)]
    );
}

#[test]
fn each_organization_is_a_group_and_the_last_common_name_counts() {
    let der = BASE64_STANDARD.decode(TWO_GROUPS).unwrap();
    let user = user_from_certificate(&der).unwrap().unwrap();
    assert_eq!(
        (user.username.as_str(), user.uid.as_str()),
        ("alice", "u-1")
    );
    assert_eq!(user.groups, ["devs", "ops", "system:authenticated"]);
}

#[test]
fn two_uids_are_refused() {
    let der = BASE64_STANDARD.decode(TWO_UIDS).unwrap();
    assert_eq!(user_from_certificate(&der).unwrap_err().status.code, 401);
}

#[test]
fn a_certificate_without_a_name_authenticates_nobody() {
    assert_eq!(user_from_certificate(&certificate(&[])).unwrap(), None);
    let nameless = certificate(&[
        (DnType::CommonName, "".into()),
        (DnType::OrganizationName, "system:masters".into()),
    ]);
    assert_eq!(user_from_certificate(&nameless).unwrap(), None);
}

#[test]
fn attack_a_certificate_for_the_anonymous_user_is_not_made_an_authenticated_one() {
    let der = certificate(&[(DnType::CommonName, "system:anonymous".into())]);
    assert!(
        user_from_certificate(&der)
            .unwrap()
            .unwrap()
            .groups
            .is_empty()
    );
    let der = certificate(&[
        (DnType::CommonName, "x".into()),
        (DnType::OrganizationName, "system:unauthenticated".into()),
    ]);
    assert_eq!(
        user_from_certificate(&der).unwrap().unwrap().groups,
        ["system:unauthenticated"]
    );
}

#[test]
fn an_empty_uid_is_refused() {
    let der = certificate(&[(DnType::CommonName, "alice".into()), (uid(), "".into())]);
    assert_eq!(user_from_certificate(&der).unwrap_err().status.code, 401);
}

#[rstest]
#[case(DnValue::PrintableString("al ice".try_into().unwrap()), "al ice")]
#[case(DnValue::Ia5String("al@ice".try_into().unwrap()), "al@ice")]
#[case(DnValue::BmpString("alicé".try_into().unwrap()), "alicé")]
#[case(DnValue::TeletexString("alice".try_into().unwrap()), "alice")]
#[case(DnValue::Utf8String("алиса".to_owned()), "алиса")]
fn each_string_type_that_go_reads_is_read(#[case] name: DnValue, #[case] expected: &str) {
    let der = certificate(&[(DnType::CommonName, name)]);
    assert_eq!(
        user_from_certificate(&der).unwrap().unwrap().username,
        expected
    );
}

#[rstest]
#[case(Tag::PrintableString, b"a@b", None)]
#[case(Tag::PrintableString, b"a*b&c", Some("a*b&c"))]
#[case(Tag::Utf8String, b"\xff", None)]
#[case(Tag::Ia5String, b"\x80", None)]
#[case(Tag::NumericString, b"1a", None)]
#[case(Tag::NumericString, b"1 2", Some("1 2"))]
#[case(Tag::T61String, b"\xe9", Some("\u{e9}"))]
#[case(Tag::BmpString, b"\0a\0b", Some("ab"))]
#[case(Tag::BmpString, b"\0a\0\0", Some("a"))]
#[case(Tag::BmpString, b"\0a\0", None)]
#[case(Tag::BmpString, b"\xd8\x00", None)]
#[case(Tag::BmpString, b"\xff\xff", None)]
#[case(Tag::Integer, b"\x01", None)]
fn a_string_outside_its_type_is_refused(
    #[case] tag: Tag,
    #[case] bytes: &'static [u8],
    #[case] expected: Option<&str>,
) {
    assert_eq!(
        text(&Any::from_tag_and_data(tag, bytes)).ok().as_deref(),
        expected
    );
}

#[test]
fn bytes_that_are_no_certificate_are_refused() {
    let mut der = certificate(&[(DnType::CommonName, "alice".into())]);
    assert_eq!(
        user_from_certificate(b"no certificate")
            .unwrap_err()
            .status
            .code,
        401
    );
    assert_eq!(
        user_from_certificate(&der[..der.len() - 1])
            .unwrap_err()
            .status
            .code,
        401
    );
    der.push(0);
    assert_eq!(user_from_certificate(&der).unwrap_err().status.code, 401);
}
