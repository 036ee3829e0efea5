//! Callers who share what is expensive: connections, threads, caches.

use integration::client::raw::request;
use serde_json::json;

use super::site::Site;

/// One upstream connection carries everybody: each request keeps its credential, each answer finds
/// its caller.
#[tokio::test]
async fn callers_on_shared_connections_are_never_mixed_up() {
    for site in [Site::new().await, Site::http1().await] {
        let clients = [site.h2().await, site.h2().await, site.h2().await];
        let asked = (0..300).map(|n| {
            let (client, token) = (&clients[n % 3], format!("token-of-{n}"));
            let path = site.path(&format!("/m{n}/echo"));
            async move { (n, client.get(&path, &token).await.unwrap().json().unwrap()) }
        });
        for (n, echo) in futures_util::future::join_all(asked).await {
            assert_eq!(echo["uri"], format!("/pfx/a/m{n}/echo"));
            let own = json!(["authorization", format!("Bearer token-of-{n}")]);
            assert!(
                echo["headers"].as_array().unwrap().contains(&own),
                "{n}: {echo}"
            );
        }
        // Requests in one packet on one connection, each with a credential of its own.
        let mut raw = site.raw().await;
        let tokens: Vec<String> = (0..10).map(|n| format!("Bearer token-of-{n}")).collect();
        let all = tokens.iter().enumerate().flat_map(|(n, token)| {
            let own = [("Authorization", token.as_str())];
            let headers: &[(&str, &str)] = if n % 2 == 0 { &own } else { &[] };
            request("GET", &site.path(&format!("/m{n}/echo")), headers, b"")
        });
        raw.send(all.collect::<Vec<u8>>()).await.unwrap();
        for (n, token) in tokens.iter().enumerate() {
            let echo = raw.response("GET").await.unwrap().json().unwrap();
            assert_eq!(echo["uri"], format!("/pfx/a/m{n}/echo"));
            let fields = echo["headers"].as_array().unwrap();
            let found = fields
                .iter()
                .find(|f| f[0] == "authorization")
                .map(|f| f[1].clone());
            assert_eq!(found, (n % 2 == 0).then(|| json!(token)), "{n}");
        }
    }
}
