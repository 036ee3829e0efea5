//! The round trip of an echo through exec, as kubectl speaks it: WebSocket, `v5.channel.k8s.io`.
//!
//! Purpose: how much later a key stroke comes back, and what a whole short session takes.
//! Invariant: in each round all ways are asked once, one after the other.

use std::time::Instant;

use super::objects::EXEC_POD;
use super::options::Options;
use super::target::{Target, Way, Ways};
use crate::client::{RawClient, raw};
use crate::{Failure, Result};

const ECHOES: u32 = 200;
const SESSIONS: u32 = 10;
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STATUS: u8 = 3;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;

/// What one way showed.
#[derive(Debug, Clone)]
pub struct Echo {
    /// The way.
    pub way: Way,
    /// Milliseconds from sending a byte to reading it back, in an open session.
    pub echo: Vec<f64>,
    /// Milliseconds for a session that prints one line: connect, upgrade, output, exit status.
    pub session: Vec<f64>,
}

/// Measures every way.
///
/// # Errors
/// When a session cannot be opened or an echo does not come.
pub async fn measure(ways: &Ways, options: &Options) -> Result<Vec<Echo>> {
    let mut all = Vec::new();
    for target in &ways.targets {
        let session = Session::open(target, "stdin=true&stdout=true&command=cat").await?;
        all.push((
            session,
            Echo {
                way: target.way,
                echo: Vec::new(),
                session: Vec::new(),
            },
        ));
    }
    for _ in 0..options.repeat(ECHOES) {
        for (session, echo) in &mut all {
            echo.echo.push(session.echo(b'x').await?);
        }
        all.rotate_left(1);
    }
    let mut all: Vec<Echo> = all.into_iter().map(|(_, echo)| echo).collect();
    all.sort_by_key(|echo| echo.way);
    for round in 0..options.repeat(SESSIONS) {
        for target in ways.rotated(round) {
            let took = short_session(target).await?;
            if let Some(echo) = all.iter_mut().find(|echo| echo.way == target.way) {
                echo.session.push(took);
            }
        }
    }
    Ok(all)
}

async fn short_session(target: &Target) -> Result<f64> {
    let began = Instant::now();
    let mut session = Session::open(target, "stdout=true&command=echo&command=hi").await?;
    let mut printed = Vec::new();
    loop {
        match session.message().await? {
            Some((STDOUT, data)) => printed.extend(data),
            Some((STATUS, _)) | None => break,
            Some(_) => {}
        }
    }
    if printed != b"hi\n" {
        return Err(Failure::new(format!(
            "exec of echo printed {printed:?} by way of {}",
            target.way
        )));
    }
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// An exec session after its upgrade.
struct Session {
    client: RawClient,
}

impl Session {
    async fn open(target: &Target, query: &str) -> Result<Self> {
        let mut client = RawClient::connect(&target.dial).await?;
        let path = format!("{}{EXEC_POD}/exec?container=main&{query}", target.prefix);
        let authorization = format!("Bearer {}", target.token);
        let host = target.dial.address.to_string();
        let headers = [
            ("Host", host.as_str()),
            ("Authorization", &authorization),
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("Sec-WebSocket-Protocol", "v5.channel.k8s.io"),
        ];
        client
            .send(raw::request("GET", &path, &headers, b""))
            .await?;
        let head = client.head().await?;
        if head.status == 101 {
            return Ok(Self { client });
        }
        let refusal = client.body(head, "GET").await?;
        Err(Failure::new(format!(
            "exec by way of {}: {}",
            target.way,
            refusal.text()
        )))
    }

    async fn echo(&mut self, byte: u8) -> Result<f64> {
        let began = Instant::now();
        // A mask of zeros is a mask, and leaves the payload as it is.
        self.client
            .send([0x80 | BINARY, 0x80 | 2, 0, 0, 0, 0, STDIN, byte])
            .await?;
        loop {
            match self.message().await? {
                Some((STDOUT, data)) if data == [byte] => break,
                Some((STDOUT, data)) if data.is_empty() => {}
                other => return Err(Failure::new(format!("exec of cat answered {other:?}"))),
            }
        }
        Ok(began.elapsed().as_secs_f64() * 1e3)
    }

    /// The channel and payload of the next data frame; `None` when the peer closes.
    async fn message(&mut self) -> Result<Option<(u8, Vec<u8>)>> {
        loop {
            let head = self.client.exactly(2).await?;
            let (opcode, short) = match head.as_slice() {
                [first, second] => (first & 0x0f, second & 0x7f),
                _ => return Err(Failure::new("a WebSocket frame's head has two bytes")),
            };
            let wider = match short {
                126 => 2,
                127 => 8,
                _ => 0,
            };
            let wide = self.client.exactly(wider).await?;
            let length = match wider {
                0 => usize::from(short),
                _ => wide
                    .iter()
                    .fold(0, |sum, byte| (sum << 8) | usize::from(*byte)),
            };
            let payload = self.client.exactly(length).await?;
            match (opcode, payload.split_first()) {
                (CLOSE, _) => return Ok(None),
                (BINARY, Some((channel, data))) => return Ok(Some((*channel, data.to_vec()))),
                _ => {}
            }
        }
    }
}
