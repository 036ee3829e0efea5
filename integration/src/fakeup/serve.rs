//! The upstream's accept loop and its connections.
//!
//! Invariant: a connection obeys the fault that held when it was accepted.

use std::net::SocketAddr;
use std::sync::Arc;

use http::Request;
use http::request::Parts;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::record::Connection;
use super::{Connections, Fault, Ordered, Shared, answers};

pub(super) async fn accept(first: TcpListener, address: SocketAddr, shared: Arc<Shared>) {
    let mut listener = Some(first);
    let mut orders = shared.fault.subscribe();
    loop {
        let Ordered { number, fault } = orders.borrow_and_update().clone();
        if fault == Fault::Down {
            listener = None;
        } else if listener.is_none() {
            listener = bind(address);
            if listener.is_none() {
                // Somebody took the port while it was down: as good as still down.
                tokio::task::yield_now().await;
                continue;
            }
        }
        shared.obeyed.send_replace(number);
        let Some(open) = &listener else {
            if orders.changed().await.is_err() {
                return;
            }
            continue;
        };
        tokio::select! {
            // A connection that comes after an order obeys it.
            biased;
            changed = orders.changed() => if changed.is_err() { return },
            accepted = open.accept() => if let Ok((tcp, _)) = accepted {
                let connection = shared.record.connected();
                tokio::spawn(until_cut(tcp, fault, connection, Arc::clone(&shared)));
            },
        }
    }
}

fn bind(address: SocketAddr) -> Option<TcpListener> {
    let socket = TcpSocket::new_v4().ok()?;
    socket.set_reuseaddr(true).ok()?;
    socket.bind(address).ok()?;
    socket.listen(1024).ok()
}

async fn until_cut(tcp: TcpStream, fault: Fault, connection: Connection, shared: Arc<Shared>) {
    let mut orders = shared.connections.subscribe();
    let start = *orders.borrow_and_update();
    let mut cuts = orders.clone();
    tokio::select! {
        _ = cuts.wait_for(|now| now.cut > start.cut) => {}
        () = connected(tcp, fault, &connection, &shared, orders, start) => {}
    }
}

async fn connected(
    tcp: TcpStream,
    fault: Fault,
    connection: &Connection,
    shared: &Arc<Shared>,
    orders: watch::Receiver<Connections>,
    start: Connections,
) {
    let _ = tcp.set_nodelay(true);
    if fault == Fault::HangBeforeTls {
        // The socket stays open, unread.
        let _tcp = tcp;
        std::future::pending::<()>().await;
        return;
    }
    let Ok(config) = shared.tls(&fault) else {
        return;
    };
    let Ok(tls) = TlsAcceptor::from(config).accept(tcp).await else {
        return;
    };
    connection.handshaken();
    match fault {
        Fault::CloseAfterRequest => by_hand(tls, b"", false, connection, shared).await,
        Fault::Answer(bytes) => by_hand(tls, &bytes, false, connection, shared).await,
        Fault::AnswerAndHold(bytes) => by_hand(tls, &bytes, true, connection, shared).await,
        other => http(tls, other, connection.number, shared, orders, start).await,
    }
}

async fn http(
    tls: TlsStream<TcpStream>,
    fault: Fault,
    number: usize,
    shared: &Arc<Shared>,
    mut orders: watch::Receiver<Connections>,
    start: Connections,
) {
    let record = Arc::clone(&shared.record);
    let hang = fault == Fault::HangAfterRequest;
    let service =
        service_fn(move |request| answers::answer(Arc::clone(&record), number, hang, request));
    let builder = auto::Builder::new(TokioExecutor::new());
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(tls), service);
    tokio::pin!(serving);
    tokio::select! {
        _ = serving.as_mut() => return,
        _ = orders.wait_for(|now| now.drained > start.drained) => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = serving.await;
}

/// Reads one request's head, records it, and answers with bytes.
async fn by_hand(
    mut tls: TlsStream<TcpStream>,
    bytes: &[u8],
    hold: bool,
    connection: &Connection,
    shared: &Shared,
) {
    let mut head = Vec::new();
    while !head.windows(4).any(|w| w == b"\r\n\r\n") {
        match tls.read_buf(&mut head).await {
            Ok(count) if count > 0 => {}
            _ => return,
        }
    }
    if let Some(head) = parse(&String::from_utf8_lossy(&head)) {
        shared.record.enter(connection.number, &head);
    }
    let _ = tls.write_all(bytes).await;
    let _ = tls.flush().await;
    if hold {
        std::future::pending::<()>().await;
    }
    let _ = tls.shutdown().await;
}

fn parse(head: &str) -> Option<Parts> {
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let mut request = Request::builder().method(first.next()?).uri(first.next()?);
    for line in lines.take_while(|l| !l.is_empty()) {
        let (name, value) = line.split_once(':')?;
        request = request.header(name, value.trim());
    }
    Some(request.body(()).ok()?.into_parts().0)
}
