//! HTTP/2 frames by hand.
//!
//! Purpose: what the `h2` crate refuses to send: floods, resets, frames in the wrong order.
//! Upstream counterpart: RFC 9113, section 4.

use crate::client::raw::RawClient;
use crate::{Context, Result};

/// What a client sends before its first frame.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its type, see [`kind`].
    pub kind: u8,
    /// Its flags, see [`flag`].
    pub flags: u8,
    /// Its stream; 0 is the connection.
    pub stream: u32,
    /// What follows the nine bytes of its head.
    pub payload: Vec<u8>,
}

/// Frame types.
pub mod kind {
    /// DATA.
    pub const DATA: u8 = 0;
    /// HEADERS.
    pub const HEADERS: u8 = 1;
    /// RST_STREAM.
    pub const RST_STREAM: u8 = 3;
    /// SETTINGS.
    pub const SETTINGS: u8 = 4;
    /// PING.
    pub const PING: u8 = 6;
    /// GOAWAY.
    pub const GOAWAY: u8 = 7;
    /// WINDOW_UPDATE.
    pub const WINDOW_UPDATE: u8 = 8;
    /// CONTINUATION.
    pub const CONTINUATION: u8 = 9;
}

/// Frame flags.
pub mod flag {
    /// END_STREAM of DATA and HEADERS.
    pub const END_STREAM: u8 = 1;
    /// ACK of SETTINGS and PING.
    pub const ACK: u8 = 1;
    /// END_HEADERS of HEADERS and CONTINUATION.
    pub const END_HEADERS: u8 = 4;
}

impl Frame {
    /// A frame.
    pub fn new(kind: u8, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            kind,
            flags,
            stream,
            payload: payload.into(),
        }
    }

    /// A RST_STREAM with error code CANCEL.
    pub fn cancel(stream: u32) -> Self {
        Self::new(kind::RST_STREAM, 0, stream, 8_u32.to_be_bytes())
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes();
        let mut bytes = length.get(1..).unwrap_or_default().to_vec();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    /// The error code of a RST_STREAM or GOAWAY.
    pub fn error_code(&self) -> Option<u32> {
        let at = match self.kind {
            kind::RST_STREAM => 0,
            kind::GOAWAY => 4,
            _ => return None,
        };
        let code: [u8; 4] = self.payload.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(code))
    }
}

/// A header block without Huffman coding or indexing, in the order given.
pub fn header_block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        string(name, &mut block);
        string(value, &mut block);
    }
    block
}

/// Sends the preface and empty SETTINGS.
///
/// # Errors
/// When the peer has closed.
pub async fn open(client: &mut RawClient) -> Result<()> {
    let settings = Frame::new(kind::SETTINGS, 0, 0, []).encode();
    client.send([PREFACE, &settings].concat()).await
}

/// Reads the next frame.
///
/// # Errors
/// When the connection ends first.
pub async fn next(client: &mut RawClient) -> Result<Frame> {
    let head = client.exactly(9).await?;
    let byte = |at: usize| {
        head.get(at)
            .copied()
            .context("a frame's head is nine bytes")
    };
    let number = |from: usize, count: usize| {
        let bytes = head.iter().skip(from).take(count);
        bytes.fold(0_u32, |sum, b| (sum << 8) | u32::from(*b))
    };
    let (kind, flags) = (byte(3)?, byte(4)?);
    let stream = number(5, 4) & 0x7fff_ffff;
    let payload = client
        .exactly(usize::try_from(number(0, 3)).unwrap_or(0))
        .await?;
    Ok(Frame {
        kind,
        flags,
        stream,
        payload,
    })
}

/// An HPACK string literal: length as an integer with a prefix of seven bits, then the bytes.
fn string(text: &str, block: &mut Vec<u8>) {
    let mut length = text.len();
    if length < 127 {
        block.push(u8::try_from(length).unwrap_or(0));
    } else {
        block.push(127);
        length -= 127;
        while length >= 128 {
            block.push(u8::try_from(length % 128).unwrap_or(0) | 128);
            length /= 128;
        }
        block.push(u8::try_from(length).unwrap_or(0));
    }
    block.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_long_strings_are_encoded_by_the_book() {
        assert_eq!(
            Frame::cancel(5).encode(),
            [0, 0, 4, 3, 0, 0, 0, 0, 5, 0, 0, 0, 8]
        );
        // RFC 7541, C.1.2: 1337 with a prefix of five bits is 31, 154, 10; with seven: 127, 186, 9.
        let block = header_block(&[("a", &"x".repeat(1337))]);
        assert_eq!(block[..6], [0, 1, b'a', 127, 186, 9]);
    }
}
