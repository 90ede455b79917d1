//! HTTP server: `/metrics` for Prometheus, `/health` for supervisors, `/ready` for load balancers
//! and for operators who are about to stop another machine, `/console` for people.
//!
//! It runs on its own thread and never touches data: it asks the workers for all its answers.

use super::console;
use super::metrics;
use super::troubles;
use crate::control::{Notice, Status};
use engine::node::Readiness;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Limit on concurrent HTTP connections.
const CONNECTIONS_MAX: usize = 64;
/// Time-out for the header of a request.
const HEADER_WAIT: Duration = Duration::from_secs(5);
/// Time-out for the server's status.
const STATUS_WAIT: Duration = Duration::from_secs(2);

/// Content types: plain text in the version that Prometheus expects, the page, JSON.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// Handle of the thread.
pub struct HttpThread {
    /// Address on which it listens.
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpThread {
    /// Opens the port and starts the thread.
    ///
    /// # Errors
    /// If the port cannot be opened.
    pub fn start(address: SocketAddr, control: Sender<Notice>) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)
            .map_err(|error| io::Error::new(error.kind(), format!("{address}: {error}")))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(move || {
            let local = LocalSet::new();
            local.spawn_local(async move {
                match TcpListener::from_std(listener) {
                    Ok(listener) => accept(listener, control).await,
                    Err(error) => tracing::error!("metrics cannot be served: {error}"),
                }
            });
            // Both ways of ending have the same effect.
            let _ = runtime.block_on(local.run_until(stopped));
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for HttpThread {
    fn drop(&mut self) {
        // Dropping the sender is the signal.
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that serves metrics has panicked");
        }
    }
}

async fn accept(listener: TcpListener, control: Sender<Notice>) {
    let open = Rc::new(Cell::new(0));
    loop {
        match listener.accept().await {
            Ok((stream, _)) if open.get() < CONNECTIONS_MAX => {
                open.set(open.get() + 1);
                let (open, control) = (open.clone(), control.clone());
                tokio::task::spawn_local(async move {
                    serve(stream, control).await;
                    open.set(open.get() - 1);
                });
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!("an HTTP connection cannot be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, control: Sender<Notice>) {
    let service = service_fn(move |request| {
        let control = control.clone();
        async move { Ok::<_, Infallible>(answer(&request, &control).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WAIT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("an HTTP connection broke: {error}");
    }
}

async fn answer(request: &Request<Incoming>, control: &Sender<Notice>) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n".to_owned());
    }
    match request.uri().path() {
        "/metrics" => match status(control).await.map(|status| metrics::render(&status)) {
            Some(Ok(page)) => text(StatusCode::OK, page),
            Some(Err(error)) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
            None => {
                text(StatusCode::SERVICE_UNAVAILABLE, "the server does not answer\n".to_owned())
            }
        },
        "/health" => match status(control).await {
            Some(status) if status.is_healthy() => text(StatusCode::OK, "ok\n".to_owned()),
            _ => silent(),
        },
        "/ready" => match status(control).await {
            Some(status) if status.is_healthy() => match reasons(&status.readiness()) {
                reasons if reasons.is_empty() => text(StatusCode::OK, ready(&status)),
                reasons => text(StatusCode::SERVICE_UNAVAILABLE, reasons),
            },
            _ => silent(),
        },
        "/console" => page(),
        "/console.json" => match ask(control, Notice::Console).await.map(|v| console::json(&v)) {
            Some(Ok(numbers)) => response(StatusCode::OK, JSON, numbers),
            Some(Err(error)) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
            None => silent(),
        },
        _ => {
            let there = "there is /metrics, /health, /ready and /console\n";
            text(StatusCode::NOT_FOUND, there.to_owned())
        }
    }
}

fn silent() -> Response<Full<Bytes>> {
    text(StatusCode::SERVICE_UNAVAILABLE, "workers do not answer\n".to_owned())
}

/// Reasons why a machine is not ready, a line each.
fn reasons(found: &Readiness) -> String {
    troubles::reasons(found).into_iter().map(|reason| reason + "\n").collect()
}

/// Answer of a machine that is ready, with problems that exist all the same.
fn ready(status: &Status) -> String {
    let wrong = troubles::troubles(status, None).into_iter();
    "ready\n".to_owned() + &wrong.map(|trouble| trouble.text + "\n").collect::<String>()
}

/// Asks the control thread for the server's status.
async fn status(control: &Sender<Notice>) -> Option<Status> {
    ask(control, Notice::Status).await
}

/// Sends a request to the control thread and waits for the answer.
async fn ask<T: Send + 'static>(
    control: &Sender<Notice>,
    question: impl Fn(Sender<T>) -> Notice,
) -> Option<T> {
    let (sender, receiver) = channel();
    control.send(question(sender)).ok()?;
    let waiting = tokio::task::spawn_blocking(move || receiver.recv_timeout(STATUS_WAIT));
    waiting.await.ok()?.ok()
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    response(status, TEXT, body)
}

/// Console page, with the policy that restricts it to itself and this server.
fn page() -> Response<Full<Bytes>> {
    let mut page = response(StatusCode::OK, HTML, console::PAGE);
    let policy = HeaderValue::from_static(console::POLICY);
    page.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    page
}

fn response(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
