use portcullis_core::Blame;
use rstest::rstest;

use super::*;

fn metrics(clusters: &[&str]) -> Metrics {
    let metrics = Metrics::new("1.2.3");
    metrics.set_clusters(clusters);
    metrics
}

fn outcome(cluster: &str, code: u16) -> RequestOutcome<'_> {
    RequestOutcome {
        cluster,
        class: Some(VerbClass::Read),
        code,
        duration: Duration::from_millis(3),
        blame: None,
    }
}

/// The value of the series whose line starts with `series` followed by a blank.
#[track_caller]
fn value(metrics: &Metrics, series: &str) -> Option<String> {
    let page = metrics.encode(false);
    let mut found = page
        .lines()
        .filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let value = found.next().map(str::to_owned);
    assert_eq!(found.next(), None, "{series} occurs twice");
    value
}

#[test]
fn a_request_is_counted_and_timed() {
    let metrics = metrics(&["team/a"]);
    metrics.request_finished(&outcome("team/a", 200));
    metrics.request_finished(&outcome("team/a", 200));
    metrics.request_finished(&RequestOutcome {
        class: None,
        blame: Some(Blame::Client),
        ..outcome("", 404)
    });
    let series = |labels: &str| value(&metrics, &format!("portcullis_{labels}"));
    assert_eq!(
        series(r#"requests_total{cluster="team/a",verb_class="read",code="200",blame=""}"#),
        Some("2".into())
    );
    assert_eq!(
        series(r#"requests_total{cluster="",verb_class="",code="404",blame="client"}"#),
        Some("1".into())
    );
    let bucket = |le| {
        series(&format!(
            r#"request_duration_seconds_bucket{{cluster="team/a",verb_class="read",le="{le}"}}"#
        ))
    };
    assert_eq!(
        (bucket("0.0025"), bucket("0.005")),
        (Some("0".into()), Some("2".into()))
    );
}

#[test]
fn clusters_that_are_not_configured_share_one_series() {
    let metrics = metrics(&["team/a"]);
    for n in 0..100 {
        metrics.request_finished(&outcome(&format!("no/such-{n}"), 404));
        metrics.limited(&format!("no/such-{n}"), "maxRequestsInFlight");
    }
    assert!(!metrics.encode(false).contains("such"));
    assert_eq!(
        value(
            &metrics,
            r#"portcullis_limited_total{cluster="",limit="maxRequestsInFlight"}"#
        ),
        Some("100".into())
    );
}

#[rstest]
#[case(200, "200")]
#[case(429, "429")]
#[case(299, "other")]
#[case(0, "other")]
#[case(999, "other")]
fn codes_that_nobody_registered_share_one_series(#[case] code: u16, #[case] label: &str) {
    let metrics = metrics(&["c"]);
    metrics.request_finished(&outcome("c", code));
    let series = format!(
        r#"portcullis_requests_total{{cluster="c",verb_class="read",code="{label}",blame=""}}"#
    );
    assert_eq!(value(&metrics, &series), Some("1".into()));
}

#[test]
fn a_cluster_takes_its_series_along_once_its_streams_ended() {
    let metrics = metrics(&["stays", "goes"]);
    for cluster in ["stays", "goes"] {
        metrics.request_finished(&outcome(cluster, 200));
        metrics.pool(cluster, PoolEvent::Opened);
        metrics.authentication(cluster, "bearer", "success", true);
        metrics.streams_changed(cluster, VerbClass::Watch, 1);
    }
    let watches = r#"portcullis_streams{cluster="goes",verb_class="watch"}"#;

    metrics.set_clusters(["stays"]);
    assert_eq!(
        value(&metrics, watches),
        Some("1".into()),
        "a stream is still open"
    );
    metrics.streams_changed("goes", VerbClass::Watch, -1);
    assert_eq!(value(&metrics, watches), Some("0".into()));
    assert_eq!(
        value(
            &metrics,
            r#"portcullis_streams{cluster="",verb_class="watch"}"#
        ),
        None
    );

    metrics.set_clusters(["stays"]);
    let page = metrics.encode(false);
    assert!(!page.contains(r#"cluster="goes""#), "{page}");
    assert!(page.contains(r#"cluster="stays""#), "{page}");
}

#[test]
fn a_handle_of_a_cluster_that_is_gone_brings_no_series_back() {
    let metrics = metrics(&["goes"]);
    let held = metrics.clusters.load_full();
    metrics.set_clusters::<[&str; 0]>([]);
    if let Some(cluster) = held.get("goes") {
        cluster.limited.with(LimitLabel { limit: "x" }, |count| {
            count.inc();
        });
    }
    assert!(!metrics.encode(false).contains(r#"cluster="goes""#));
}

#[test]
fn a_reload_keeps_the_counts_of_clusters_that_stay() {
    let metrics = metrics(&["c"]);
    metrics.request_finished(&outcome("c", 200));
    metrics.set_clusters(["c", "d"]);
    metrics.request_finished(&outcome("c", 200));
    assert_eq!(
        value(
            &metrics,
            r#"portcullis_requests_total{cluster="c",verb_class="read",code="200",blame=""}"#
        ),
        Some("2".into())
    );
}

#[test]
fn facts_without_a_cluster_are_counted() {
    let metrics = metrics(&[]);
    metrics.in_flight_changed(VerbClass::Mutate, 2);
    metrics.in_flight_changed(VerbClass::Mutate, -1);
    metrics.connections_changed(3);
    metrics.connection_refused("max_connections");
    metrics.stage_finished(Stage::Authorize, Duration::from_micros(7));
    metrics.reloaded("directory", true);
    metrics.reloaded("directory", false);
    metrics.clusters(4, 5, 6);
    for (series, expected) in [
        (r#"requests_in_flight{verb_class="mutate"}"#, "1"),
        ("connections", "3"),
        (
            r#"connections_refused_total{reason="max_connections"}"#,
            "1",
        ),
        (
            r#"stage_duration_seconds_bucket{stage="authorize",le="5e-06"}"#,
            "0",
        ),
        (
            r#"stage_duration_seconds_bucket{stage="authorize",le="1e-05"}"#,
            "1",
        ),
        (r#"reloads_total{source="directory",result="success"}"#, "1"),
        (r#"reloads_total{source="directory",result="failure"}"#, "1"),
        (r#"clusters{state="serving"}"#, "4"),
        (r#"clusters{state="refused"}"#, "5"),
        (r#"clusters{state="disabled"}"#, "6"),
        (r#"trace_spans_total{result="dropped"}"#, "0"),
        (r#"build_info{version="1.2.3"}"#, "1"),
    ] {
        let series = format!("portcullis_{series}");
        assert_eq!(
            value(&metrics, &series).as_deref(),
            Some(expected),
            "{series}"
        );
    }
    let reload = r#"portcullis_reload_last_success_timestamp_seconds{source="directory"}"#;
    let stamp: u64 = value(&metrics, reload).unwrap().parse().unwrap();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    assert!(now - stamp < 60, "{stamp} is not about {now}");
}

#[test]
#[cfg(target_os = "linux")]
fn the_process_shows_itself() {
    let metrics = metrics(&[]);
    let number = |name: &str| value(&metrics, name).unwrap().parse::<f64>().unwrap();
    assert!(number("process_resident_memory_bytes") > 100_000.0);
    assert!(number("process_open_fds") >= 3.0);
    assert!(number("process_threads") >= 1.0);
    assert!(number("process_cpu_seconds_total") >= 0.0);
}

#[test]
fn help_texts_end_with_one_dot() {
    let page = metrics(&[]).encode(false);
    for line in page.lines().filter(|line| line.starts_with("# HELP")) {
        assert!(line.ends_with('.') && !line.ends_with(".."), "{line}");
    }
}

#[test]
fn both_text_formats_are_complete() {
    let metrics = metrics(&[]);
    assert!(metrics.encode(true).ends_with("# EOF\n"));
    assert!(!metrics.encode(false).contains("# EOF"));
}
