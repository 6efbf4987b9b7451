//! An HTTP request: its first line and headers, of which two are used.

use super::page::Format;

/// Maximum number of headers of a request.
const HEADERS: usize = 64;

/// A parsed request.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// A request for the metrics.
    Scrape(Format),
    /// A request for the headers of that answer alone (HEAD).
    Headers(Format),
    /// A request that is rejected, with the status line's number and text.
    Refused(&'static str),
    /// The request is not complete.
    Unfinished,
}

impl Request {
    /// Parses these bytes.
    pub fn of(bytes: &[u8]) -> Request {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(bytes) {
            Ok(httparse::Status::Partial) => return Request::Unfinished,
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => return Request::Refused(TOO_LARGE),
            Err(_) => return Request::Refused("400 Bad Request"),
        }
        let answer = match request.method {
            Some("GET") => Request::Scrape,
            Some("HEAD") => Request::Headers,
            _ => return Request::Refused("405 Method Not Allowed"),
        };
        let path = request.path.and_then(|path| path.split('?').next());
        if path != Some("/metrics") {
            return Request::Refused("404 Not Found");
        }
        let accepts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
        let accepts = accepts.filter_map(|header| std::str::from_utf8(header.value).ok());
        answer(format(accepts.flat_map(|value| value.split(','))))
    }
}

/// The status for a request that is too large.
pub const TOO_LARGE: &str = "431 Request Header Fields Too Large";

/// Returns the preferred format, or the classic one if no preference is given.
fn format<'a>(ranges: impl Iterator<Item = &'a str>) -> Format {
    let (mut classic, mut open) = (None::<f32>, None::<f32>);
    for range in ranges {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let liked = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0_f32);
        let best = match kind.to_ascii_lowercase().as_str() {
            "application/openmetrics-text" => &mut open,
            "text/plain" => &mut classic,
            _ => continue,
        };
        *best = Some(best.map_or(liked, |best| best.max(liked)));
    }
    match open {
        Some(open) if open > 0.0 && classic.is_none_or(|classic| open >= classic) => Format::OpenMetrics,
        _ => Format::Classic,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(accept: &str) -> Request {
        Request::of(format!("GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n{accept}\r\n").as_bytes())
    }

    #[test]
    fn the_classic_format_is_given_unless_open_metrics_is_liked_as_much() {
        let prometheus = "Accept: application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;\
                          q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\n";
        for (accept, wanted) in [
            ("", Format::Classic),
            ("Accept: */*\r\n", Format::Classic),
            ("Accept: text/html\r\n", Format::Classic),
            (prometheus, Format::OpenMetrics),
            ("accept: application/openmetrics-text;q=0.2, text/plain;q=0.5\r\n", Format::Classic),
            ("accept: text/plain\r\naccept: application/openmetrics-text\r\n", Format::OpenMetrics),
            ("accept: application/openmetrics-text;q=0\r\n", Format::Classic),
            ("accept: application/openmetrics-text;q=nan\r\n", Format::Classic),
        ] {
            assert_eq!(asked(accept), Request::Scrape(wanted), "{accept}");
        }
    }

    #[test]
    fn a_request_that_is_not_a_scrape_is_refused_and_half_a_request_is_waited_for() {
        for (bytes, wanted) in [
            ("GET /metrics HTTP/1.1\r\nHost:", Request::Unfinished),
            ("", Request::Unfinished),
            ("POST /metrics HTTP/1.1\r\n\r\n", Request::Refused("405 Method Not Allowed")),
            ("GET / HTTP/1.1\r\n\r\n", Request::Refused("404 Not Found")),
            ("GET /metrics/.. HTTP/1.1\r\n\r\n", Request::Refused("404 Not Found")),
            ("\u{0}\u{1}\u{2}", Request::Refused("400 Bad Request")),
        ] {
            assert_eq!(Request::of(bytes.as_bytes()), wanted, "{bytes}");
        }
        let many = (0..100).map(|n| format!("h{n}: 1\r\n")).collect::<String>();
        assert_eq!(asked(&many), Request::Refused(TOO_LARGE));
    }
}
