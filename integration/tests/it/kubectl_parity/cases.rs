//! The table of commands: what kubectl 1.37's recorded sessions hold, faults aside.
//!
//! Order matters: within a side the cases run one after the other, and later ones find what
//! earlier ones left.

use super::case::Cache::{Cold, Twice};
use super::case::{Case, Trigger, Way, case};

const WEBSOCKETS_OFF: &[(&str, &str)] = &[
    ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false"),
    ("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false"),
];

/// Two events, after which all is as before.
const TOUCH: &[&str] = &[
    "-n {ns} annotate pod p0 touched=yes",
    "-n {ns} annotate pod p0 touched-",
];

const fn watch(first: &'static str, then: &'static str) -> Way {
    Way::Watch {
        first,
        touch: TOUCH,
        then,
    }
}

/// What talks by itself.
const fn follow(then: &'static str) -> Way {
    Way::Watch {
        first: "",
        touch: &[],
        then,
    }
}

/// Cases that see the side's own namespace only; the sides run them at the same time.
pub(super) fn side_by_side() -> Vec<Case> {
    [
        DISCOVERY,
        READS,
        WATCHES,
        STREAMS,
        WRITES,
        DEPLOYMENTS,
        IDENTITY,
        DELETIONS,
    ]
    .concat()
}

const DISCOVERY: &[Case] = &[
    case("api-resources-cold", "api-resources").cache(Cold),
    case("api-resources-twice-with-one-cache", "api-resources").cache(Twice),
    case("api-versions", "api-versions").cache(Cold),
    case("version", "version").cache(Cold),
    case("cluster-info", "cluster-info").cache(Cold),
    case("explain-cold", "explain pods").cache(Cold),
    case("explain-warm", "explain pods.spec.containers"),
    case("explain-unknown", "explain nosuch").exits(1),
    case("explain-crd", "explain project"),
    case("get-unknown-kind", "get nosuchkinds").exits(1),
    case("get-raw", "get --raw /readyz"),
    case("get-raw-not-found", "get --raw /no/such/path").exits(1),
];

const READS: &[Case] = &[
    case("get-pods-cold", "get pods").cache(Cold),
    case("get-pods-warm", "get pods"),
    case("get-pods-json", "get pods -o json"),
    case("get-pods-yaml", "get pods -o yaml"),
    case("get-pods-wide", "get pods -o wide"),
    case("get-pods-name", "get pods -o name"),
    case(
        "get-pods-custom-columns",
        "get pods -o custom-columns=N:.metadata.name",
    ),
    case("get-pods-sort-by", "get pods --sort-by=.metadata.name"),
    case(
        "get-pods-selector",
        "get pods -l app=web --field-selector=spec.nodeName=n1",
    ),
    case("get-pods-chunk-1", "get pods --chunk-size=1"),
    case("get-pods-no-server-print", "get pods --server-print=false"),
    case("get-pods-show-labels", "get pods --show-labels"),
    case("get-pod-named", "get pod p0"),
    case("get-pod-missing", "get pod p0 missing").exits(1),
    case(
        "get-in-missing-namespace",
        "get pod p0 -n no-such-namespace",
    )
    .exits(1),
    case("get-several-kinds", "get pods,configmaps"),
    case("get-subresource-status", "get pod p0 --subresource=status"),
    case("get-forbidden", "get secrets -n kube-system")
        .by("bob")
        .exits(1),
    case("describe-pod", "describe pod p0"),
    case("events", "events --for pod/p0"),
    case("top-pods", "top pods").exits(1),
    case(
        "pod-proxy",
        "get --raw /api/v1/namespaces/{ns}/pods/p0:{port}/proxy/",
    )
    .exits(1),
];

const WATCHES: &[Case] = &[
    case("get-watch", "get pods -w").way(watch("p1 .*\n", "p0(?s:.*?)p0 .*\n")),
    case("get-watch-named", "get pod p0 -w").way(watch("p0 .*\n", "p0(?s:.*?)p0 .*\n")),
    case(
        "get-watch-events-json",
        "get pods -w --output-watch-events -o json",
    )
    .way(watch(r#""name":"p1".*\n"#, r#""MODIFIED".*\n"#)),
    case(
        "wait-condition",
        "wait --for=condition=Ready pod/p0 --timeout=20s",
    ),
    case(
        "wait-jsonpath-timeout",
        "wait --for=jsonpath={.data.a}=never cm/kube-root-ca.crt --timeout=1s",
    )
    .exits(1),
    case("wait-delete", "wait --for=delete cm/doomed --timeout=40s")
        .before(&["-n {ns} create cm doomed"])
        .way(Way::Until {
            first: Trigger::Watching("/namespaces/{ns}/configmaps?"),
            touch: &["-n {ns} delete cm doomed --wait=false"],
        }),
];

const STREAMS: &[Case] = &[
    case("logs", "logs p0"),
    case("logs-tail", "logs p0 --tail=1"),
    case("logs-f", "logs -f p0").way(follow("main line 6\n")),
    case("logs-f-selector", "logs -f -l app=web --prefix --tail=5 --timestamps")
        .way(follow(r"(?s)p0/\S+ \S+ main line 5\n.*p1/\S+ \S+ main line 5\n|p1/\S+ \S+ main line 5\n.*p0/\S+ \S+ main line 5\n"))
        .only("line [1-5]$"),
    case("exec", "exec p0 -- sh -c 'echo out; echo err >&2; exit 3'").exits(3),
    case("exec-stdin", "exec -i p0 -- cat").stdin("hello\n"),
    case("exec-large-output", "exec p0 -- sh -c 'seq 1 60000'"),
    case("exec-missing-command", "exec p0 -- no-such-command").exits(1),
    case("exec-missing-pod", "exec missing -- true").exits(1),
    case("exec-spdy", "exec p0 -- sh -c 'echo out; echo err >&2; exit 3'")
        .env(WEBSOCKETS_OFF)
        .exits(3),
    case("exec-spdy-stdin", "exec -i p0 -- cat").env(WEBSOCKETS_OFF).stdin("hello\n"),
    case("exec-forbidden", "exec p0 -- true").by("bob").exits(1),
    case("attach", "attach p0").way(follow("main line 5\r?\n")),
    case("attach-stdin", "attach -i p0").stdin("hello\n"),
    case("attach-spdy-stdin", "attach -i p0").env(WEBSOCKETS_OFF).stdin("hello\n"),
    case("port-forward", "port-forward p0 :{port}").way(Way::PortForward),
    case("port-forward-spdy", "port-forward p0 :{port}").env(WEBSOCKETS_OFF).way(Way::PortForward),
    case("cp-to-pod", "cp {dir}/up.txt p0:up.txt"),
    case("cp-arrived", "exec p0 -- cat up.txt"),
    case("cp-from-pod", "cp p0:up.txt {dir}/down.txt"),
];

const WRITES: &[Case] = &[
    case("create-f", "create -f {dir}/cm.json").cache(Cold),
    case("create-f-exists", "create -f {dir}/cm.json").exits(1),
    case(
        "create-f-novalidate",
        "create -f {dir}/cm.json --validate=false",
    )
    .before(&["-n {ns} delete cm w1"]),
    case(
        "create-dry-run-server",
        "create -f {dir}/cm2.json --dry-run=server",
    ),
    case("create-strict-unknown-field", "create -f {dir}/bad.json").exits(1),
    case("create-configmap", "create cm w4 --from-literal=a=b"),
    case("create-token", "create token default"),
    case("apply-client-create", "apply -f {dir}/ap.json"),
    case("apply-client-unchanged", "apply -f {dir}/ap.json"),
    case("apply-client-update", "apply -f {dir}/ap2.json"),
    case("apply-server-side", "apply --server-side -f {dir}/ss.json"),
    case(
        "apply-server-side-conflict",
        "apply --server-side --field-manager=other -f {dir}/ss2.json",
    )
    .exits(1),
    case(
        "apply-dry-run-server",
        "apply --dry-run=server -f {dir}/ap3.json",
    ),
    case("apply-forbidden", "apply -f {dir}/ap3.json")
        .by("bob")
        .exits(1),
    case("diff", "diff -f {dir}/ap4.json").exits(1),
    case("edit", "edit cm ap1").env(&[("KUBE_EDITOR", "{dir}/edit.sh")]),
    case("replace", "replace -f {dir}/ap5.json"),
    case(
        "patch-strategic",
        r#"patch cm ap1 --type strategic -p '{"data":{"a":"s"}}'"#,
    ),
    case(
        "patch-merge",
        r#"patch cm ap1 --type merge -p '{"data":{"a":"m"}}'"#,
    ),
    case(
        "patch-json",
        r#"patch cm ap1 --type json -p '[{"op":"replace","path":"/data/a","value":"j"}]'"#,
    ),
    case("patch-arrived", "get cm ap1 -o jsonpath={.data.a}"),
    case("label", "label cm ap1 x=y --overwrite"),
    case("annotate", "annotate cm ap1 x=y --overwrite"),
    case("crd-create", "create -f {dir}/project.json"),
    case("crd-get", "get project prj-{side} -o yaml"),
    case("crd-apply", "apply -f {dir}/project2.json"),
    case("crd-describe", "describe project prj-{side}"),
    case("run", "run r1 --image=registry.example/x:1 --restart=Never"),
];

const DEPLOYED: &[&str] = &["-n {ns} rollout status deploy/d1 --timeout=60s"];

const DEPLOYMENTS: &[Case] = &[
    case("apply-client-deployment", "apply -f {dir}/d.json"),
    case("rollout-status", "rollout status deploy/d1 --timeout=20s").before(DEPLOYED),
    case("scale", "scale deploy d1 --replicas=2"),
    case("set-image", "set image deploy/d1 c=registry.example/x:2").before(DEPLOYED),
    case("rollout-restart", "rollout restart deploy/d1").before(DEPLOYED),
    case("rollout-history", "rollout history deploy/d1").before(DEPLOYED),
    case("get-deployment", "get deploy d1 -o wide"),
    case("delete-foreground", "delete deploy d1 --cascade=foreground"),
];

const IDENTITY: &[Case] = &[
    case("auth-can-i", "auth can-i list pods").by("alice"),
    case("auth-can-i-no", "auth can-i delete nodes")
        .by("alice")
        .exits(1),
    case("auth-can-i-subresource", "auth can-i create pods/exec").by("alice"),
    // The server collects the rules in no particular order.
    case("auth-can-i-list", "auth can-i --list")
        .by("alice")
        .only("."),
    case("auth-can-i-as", "auth can-i list secrets --as=bob").exits(1),
    case("crd-can-i", "auth can-i list projects"),
    case("auth-whoami", "auth whoami").by("alice"),
    case("auth-whoami-admin", "auth whoami -o yaml"),
    case("as", "get pods -l app=web --as=alice --as-group=developers"),
    case("as-without-groups", "get pods --as=alice").exits(1),
    case(
        "as-group",
        "get pods --as=zoe --as-group=devs --as-group=system:authenticated",
    )
    .exits(1),
    case(
        "as-uid",
        "auth whoami --as=zoe --as-group=devs --as-uid=u-1",
    ),
    case(
        "as-user-extra",
        "auth whoami --as=zoe --as-user-extra=scopes=a --as-user-extra=scopes=b",
    ),
    case(
        "as-service-account",
        "auth whoami --as=system:serviceaccount:{ns}:default",
    ),
    case("as-group-alone", "get pods --as-group=devs").exits(1),
    case("as-forbidden", "get pods --as=admin")
        .by("alice")
        .exits(1),
    case(
        "as-forbidden-group",
        "get pods --as=alice --as-group=system:masters",
    )
    .by("alice")
    .exits(1),
    case("as-forbidden-uid", "get pods --as=alice --as-uid=u-1")
        .by("bob")
        .exits(1),
    case(
        "as-forbidden-extra",
        "get pods --as=alice --as-user-extra=scopes=a",
    )
    .by("bob")
    .exits(1),
    case("as-forbidden-write", "create cm nope --as=admin")
        .by("alice")
        .exits(1),
    case(
        "as-by-the-gateway-user",
        "get pods -l app=web --as=bob --as-group=viewers",
    )
    .by("gateway"),
    case(
        "as-exec",
        "exec p0 --as=alice --as-group=developers -- echo hi",
    ),
    case("as-forbidden-exec", "exec p0 --as=admin -- echo hi")
        .by("alice")
        .exits(1),
];

const DELETIONS: &[Case] = &[
    case("delete-cm", "delete cm ss1"),
    case("delete-wait-finalizer", "delete cm fin")
        .before(&["-n {ns} create -f {dir}/fin.json"])
        .way(Way::Until {
            first: Trigger::Printed("deleted"),
            touch: &[r#"-n {ns} patch cm fin --type=merge -p '{"metadata":{"finalizers":null}}'"#],
        }),
    case("delete-wait-false", "delete cm w1 --wait=false"),
    case("delete-missing", "delete cm missing").exits(1),
    case("delete-forbidden", "delete cm ap1").by("bob").exits(1),
    case("delete-selector", "delete cm -l x=y"),
    case("delete-f", "delete -f {dir}/cm.json").before(&["-n {ns} create -f {dir}/cm.json"]),
    case("delete-force-pod", "delete pod r1 --grace-period=0 --force"),
    case("create-namespace", "create ns {ns}-2"),
    case("delete-namespace-wait", "delete ns {ns}-2"),
];

/// Cases that see or change what belongs to the whole cluster; the sides run them in turn.
pub(super) fn in_turn() -> Vec<Case> {
    ALONE.to_vec()
}

const ALONE: &[Case] = &[
    case("get-pods-all-namespaces", "get pods -A"),
    case("crd-get-cold", "get projects").cache(Cold),
    case("crd-watch", "get projects -w").way(Way::Watch {
        first: "prj-c .*\n",
        touch: &[
            "annotate project prj-a touched=yes",
            "annotate project prj-a touched-",
        ],
        then: "prj-a(?s:.*?)prj-a .*\n",
    }),
    case("cordon", "cordon n1").before(&["uncordon n1"]),
    case("cordon-again", "cordon n1").before(&["cordon n1"]),
    case("uncordon", "uncordon n1").before(&["cordon n1"]),
    case("get-nodes", "get nodes -o wide").before(&["uncordon n1"]),
    // Once somebody has impersonated with success, kube-apiserver words the refusals it gives them
    // later in another way; so alice succeeds after all of hers.
    case(
        "as-own-service-account",
        "auth whoami --as=system:serviceaccount:parity-a:default",
    )
    .by("alice"),
];

/// Last: it takes away what the cases above look at.
pub(super) const LAST: Case = case("crd-delete", "delete project prj-{side}");
