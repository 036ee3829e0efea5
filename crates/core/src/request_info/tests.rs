use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn read(method: &str, target: &str) -> RequestInfo {
    let (path, query) = target
        .split_once('?')
        .map_or((target, None), |(p, q)| (p, Some(q)));
    RequestInfo::new(method, &clean_path(path).unwrap(), query).unwrap()
}

#[rstest]
#[case("GET", "/api/v1/namespaces", "list //namespaces//")]
#[case("GET", "/api/v1/namespaces/demo", "get /demo/namespaces/demo/")]
#[case(
    "PUT",
    "/api/v1/namespaces/demo/finalize",
    "update /demo/namespaces/demo/finalize"
)]
#[case("GET", "/api/v1/namespaces/demo/pods", "list /demo/pods//")]
#[case("GET", "/api/v1/namespaces/demo/pods/", "list /demo/pods//")]
#[case("GET", "/api/v1/namespaces/demo%2Fpods", "list /demo/pods//")]
#[case("GET", "/api/v1/namespaces/demo/pods/p0", "get /demo/pods/p0/")]
#[case("HEAD", "/api/v1/namespaces/demo/pods/p0", "get /demo/pods/p0/")]
#[case("GET", "/api/v1/namespaces/demo/pods/p0/log", "get /demo/pods/p0/log")]
#[case(
    "POST",
    "/api/v1/namespaces/demo/pods/p0/exec",
    "create /demo/pods/p0/exec"
)]
#[case(
    "DELETE",
    "/apis/apps/v1/namespaces/d/deployments",
    "deletecollection apps/d/deployments//"
)]
#[case(
    "PATCH",
    "/apis/apps/v1/namespaces/d/deployments/x/scale",
    "patch apps/d/deployments/x/scale"
)]
#[case("GET", "/api/v1/watch/namespaces/demo/pods", "watch /demo/pods//")]
#[case("GET", "/api/v1/proxy/nodes/n1/x/y", "proxy //nodes/n1/")]
#[case("PROPFIND", "/api/v1/pods", " //pods//")]
#[case(
    "GET",
    "/api/v1/pods?fieldSelector=metadata.name%3Dx",
    "list //pods/x/"
)]
#[case(
    "GET",
    "/api/v1/pods?fieldSelector=spec.nodeName=n,metadata.name==x&watch=1",
    "watch //pods/x/"
)]
#[case("GET", "/api/v1/pods?fieldSelector=metadata.name!=x", "list //pods//")]
#[case("GET", "/api/v1/pods?fieldSelector=metadata.name=a/b", "list //pods//")]
fn resource_requests_read_as_upstream_reads_them(
    #[case] method: &str,
    #[case] target: &str,
    #[case] expected: &str,
) {
    let info = read(method, target);
    assert!(info.is_resource_request);
    let RequestInfo {
        verb,
        api_group,
        namespace,
        resource,
        name,
        subresource,
        ..
    } = info;
    let got = format!("{verb} {api_group}/{namespace}/{resource}/{name}/{subresource}");
    assert_eq!(got, expected);
}

#[rstest]
#[case("/")]
#[case("/api")]
#[case("/api/v1")]
#[case("/apis")]
#[case("/apis/apps")]
#[case("/apis/apps/v1")]
#[case("/healthz")]
#[case("/version/")]
#[case("/openapi/v3/api/v1")]
#[case("//api/v1x")]
fn everything_else_is_a_non_resource_request(#[case] path: &str) {
    let info = read("GET", path);
    assert!(!info.is_resource_request, "{path}");
    assert_eq!(info.verb, "get");
}

#[rstest]
#[case("watch=true", true)]
#[case("watch=True", true)]
#[case("watch=1", true)]
#[case("watch=", true)]
#[case("watch", true)]
#[case("watch=yes", true)]
#[case("watch=f", true)]
#[case("%77atch=1", true)]
#[case("limit=x&watch=1", true)]
#[case("watch=false", false)]
#[case("watch=FALSE", false)]
#[case("watch=0", false)]
#[case("watch=0&watch=1", false)]
#[case("watch=1;x", false)]
#[case("watched=1", false)]
#[case("", false)]
fn every_spelling_of_watch_that_upstream_accepts(#[case] query: &str, #[case] watch: bool) {
    let info = read("GET", &format!("/api/v1/pods?{query}"));
    assert_eq!(info.verb == "watch", watch);
    assert_eq!(info.is_long_running(), watch);
}

#[rstest]
#[case("/api/v1/../secrets", PathError::DotSegment)]
#[case("/api/v1/%2e%2e/secrets", PathError::DotSegment)]
#[case("/.%2e/..%2fsecret", PathError::DotSegment)]
#[case("/api/%252e%252e/x", PathError::DotSegment)]
#[case("/a/..;x/b", PathError::DotSegment)]
#[case("/a%5C..%5Cb", PathError::DotSegment)]
#[case("/a/./b", PathError::DotSegment)]
#[case("/a/..", PathError::DotSegment)]
#[case("/a%00b", PathError::Control)]
#[case("/a%0ab", PathError::Control)]
#[case("/a%zz", PathError::Encoding)]
#[case("/a%2", PathError::Encoding)]
#[case("/a%ff", PathError::Utf8)]
#[case("*", PathError::NotAbsolute)]
fn ambiguous_paths_are_refused(#[case] raw: &str, #[case] error: PathError) {
    assert_eq!(clean_path(raw), Err(error));
}

#[rstest]
#[case("/a%2Fb/c", "/a/b/c")]
#[case("//a//b", "//a//b")]
#[case("/a;b=c", "/a;b=c")]
#[case("/a%20b+c", "/a b+c")]
#[case("/%C3%A9", "/é")]
#[case("/apis/a.b.c/v1", "/apis/a.b.c/v1")]
#[case("/a/...", "/a/...")]
fn unusual_but_unambiguous_paths_decode_once(#[case] raw: &str, #[case] decoded: &str) {
    assert_eq!(clean_path(raw).unwrap(), decoded);
}

#[test]
fn a_verb_in_the_path_needs_a_resource_behind_it() {
    assert_eq!(
        RequestInfo::new("GET", "/api/v1/watch", None),
        Err(PathError::Incomplete)
    );
}

#[rstest]
#[case("GET", "/api/v1/pods", VerbClass::Read)]
#[case("POST", "/api/v1/namespaces/d/pods", VerbClass::Mutate)]
#[case("GET", "/api/v1/pods?watch=1", VerbClass::Watch)]
#[case("GET", "/api/v1/namespaces/d/pods/p/exec", VerbClass::Connect)]
#[case("POST", "/anything", VerbClass::Mutate)]
fn verb_classes(#[case] method: &str, #[case] target: &str, #[case] class: VerbClass) {
    assert_eq!(read(method, target).verb_class(), class);
}

proptest! {
    #[test]
    fn no_input_panics_and_no_clean_path_has_a_dot_segment(raw in "/?[a-z./%0-9;\\\\]{0,40}", query in ".{0,30}") {
        if let Ok(path) = clean_path(&raw) {
            prop_assert!(!path.split('/').any(|s| s == ".." || s == "."));
            let _ = RequestInfo::new("GET", &path, Some(&query));
        }
    }
}
