package testkit

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
)

const (
	endless = 1 << 40 // repetitions of a flood that only the sender ends
	ok      = "HTTP/1.1 200 OK\r\n"
)

// Hostiles returns every misbehaviour.
func Hostiles() []Hostile {
	return slices.Concat(
		hostileConnections(), hostileHeads(), hostileInterims(), hostileLengths(), hostileBodies(), hostileAnswers(),
		hostileRedirects(), hostileHandshakes(), hostileNames(),
	)
}

func hostileConnections() []Hostile {
	const answer = ok + "Content-Length: 2\r\n\r\nok"
	refused := unreachable("refuse the connection", "connection_refused").over("http")
	refused.start = nobody
	hole := timedOutAt("connect_timeout", "a black hole for SYN").over("http")
	hole.start = blackHole
	return in("tcp", "T-07",
		refused,
		hole,
		// A fast sender has written its request before the reset arrives.
		unreachable("accept and reset", "connection_reset", reset).or(postrider.OutcomeBroken, "connection_cut").over("http"),
		timedOut("accept and never read", stall),
		timedOut("never read, and let the window close", stall).big(),
		timedOut("read and never answer", request, hold),
		timedOut("read one byte and stop", some, stall),
		cut("reset in the request", some, reset),
		cut("reset after the request", request, reset),
		cut("close after the request", request),
		cut("half-close after the request", request, halfClose),
		cut("reset in the head", request, say("HTTP/1.1 200 OK\r\nContent-"), reset),
		cut("close in the head", request, say("HTTP/1.1 200 OK\r\nContent-")),
		accepted("reset in the body", request, say(ok+"Content-Length: 100\r\n\r\nhalf"), reset).rows("T-08"),
		// The end of the connection may cross the next request.
		accepted("200 and reset", request, say(ok+"Content-Length: 0\r\n\r\n"), reset).or(postrider.OutcomeBroken, "connection_cut").rows("T-08"),
		accepted("close between requests", request, say(answer)).or(postrider.OutcomeBroken, "connection_cut").rows("T-08"),
		accepted("connection: close always", request, say(ok+"Connection: close\r\nContent-Length: 2\r\n\r\nok")).rows("T-08"),
		accepted("answer before the request was read", some, say(answer), request).rows("T-08").kept(),
		accepted("two answers to one request", request, say(answer+answer), hold).rows("T-06"),
	)
}

func hostileHeads() []Hostile {
	return in("head", "T-06",
		garbled("no status line", request, say("Content-Length: 0\r\n\r\n"), hold),
		garbled("garbage", request, say("\x00\xff\x16\x03\x01 \x07\r\n\r\n"), hold),
		garbled("status 99", request, say("HTTP/1.1 99 Early\r\n\r\n"), hold),
		garbled("status 000", request, say("HTTP/1.1 000 None\r\nContent-Length: 0\r\n\r\n"), hold),
		garbled("status 1000", request, say("HTTP/1.1 1000 Late\r\n\r\n"), hold),
		garbled("a status of letters", request, say("HTTP/1.1 abc OK\r\n\r\n"), hold),
		garbled("HTTP/0.9", request, say("<html>hello</html>\r\n"), hold),
		garbled("HTTP/2", request, say("\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64\r\n\r\n"), hold),
		garbled("the preface of HTTP/2", request, say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), hold),
		accepted("HTTP/1.0 without a length", request, say("HTTP/1.0 200 OK\r\n\r\nhello")),
		timedOut("a byte of the head at a time", request, drip(ok+"Content-Length: 0\r\nX-Slow: "+strings.Repeat("x", 4096))).rows("T-02"),
		garbled("a header of 10 MB", request, say(ok+"X-Big: "), flood("x", 10<<20)).flood().rows("T-04"),
		garbled("a million headers", request, say(ok), flood("X-Many: 1\r\n", 1<<20)).flood().rows("T-04"),
		garbled("NUL in a header's name", request, say(ok+"X-Nul\x00: 1\r\nContent-Length: 0\r\n\r\n"), hold).rows("T-06 T-28"),
		garbled("NUL in a header's value", request, say(ok+"X-Nul: \x00\r\nContent-Length: 0\r\n\r\n"), hold).rows("T-06 T-28"),
		garbled("CR in a header", request, say(ok+"X-Cr: a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n"), hold).rows("T-06 T-32"),
		garbled("escape sequences in the status line and a header", request,
			say("HTTP/1.1 500 \x1b[2J\x1b]0;owned\x07\r\nX-Ansi: \x1b[31m\r\nContent-Length: 0\r\n\r\n"), hold).rows("T-32"),
		garbled("a header without a name", request, say(ok+": 1\r\nContent-Length: 0\r\n\r\n"), hold),
		garbled("a header without a colon", request, say(ok+"nonsense\r\n\r\n"), hold),
	)
}

func hostileInterims() []Hostile {
	const interim = "HTTP/1.1 100 Continue\r\n\r\n"
	const hints = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
	return in("head", "T-04",
		garbled("1,000 times 100 Continue", request, say(strings.Repeat(interim, 1000)+ok+"Content-Length: 0\r\n\r\n"), hold),
		garbled("endless 100 Continue", request, flood(interim, endless)).flood(),
		garbled("endless 103 Early Hints", request, flood(hints, endless)).flood(),
		accepted("three 100 Continue", request, say(strings.Repeat(interim, 3)+ok+"Content-Length: 0\r\n\r\n")).kept(),
		rejected("101 Switching Protocols", "bad_response", request,
			say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"), hold).rows("T-06"),
	)
}

func hostileLengths() []Hostile {
	return in("length", "T-06",
		accepted("204 with a body", request, say("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"), hold),
		rejected("304 with a body", "redirect", request, say("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello"), hold),
		accepted("the same length twice", request, say(ok+"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok")).kept(),
		garbled("two lengths", request, say(ok+"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!"), hold),
		garbled("a negative length", request, say(ok+"Content-Length: -1\r\n\r\n"), hold),
		garbled("a length of letters", request, say(ok+"Content-Length: two\r\n\r\nok"), hold),
		accepted("a length and chunks", request, say(ok+"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), hold),
		garbled("an unknown transfer encoding", request, say(ok+"Transfer-Encoding: rot13\r\n\r\nbx"), hold),
		accepted("1 TB announced, 5 bytes sent", request, say(ok+"Content-Length: 1099511627776\r\n\r\nhello")),
		accepted("1 TB announced, silence", request, say(ok+"Content-Length: 1099511627776\r\n\r\n"), hold).slow(),
		accepted("more than announced", request, say(ok+"Content-Length: 2\r\n\r\nok and more"), hold),
		accepted("a long body", request, say(ok+"Content-Length: 104857600\r\n\r\n"), flood("x", 100<<20)).flood().rows("T-01"),
	)
}

func hostileBodies() []Hostile {
	const chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
	const page = "<html><script>alert(document.cookie)</script>\"'--></html>"
	return in("body", "T-01",
		accepted("an endless body", request, say(ok+"\r\n"), flood("x", endless)).flood(),
		accepted("endless chunks", request, say(chunked), flood("400\r\n"+strings.Repeat("x", 1024)+"\r\n", endless)).flood(),
		accepted("endless chunks of a byte", request, say(chunked), flood("1\r\nx\r\n", endless)).flood(),
		accepted("endless chunk extensions", request, say(chunked), flood("1;"+strings.Repeat("e", 1000)+"\r\nx\r\n", endless)).flood(),
		accepted("one endless chunk extension", request, say(chunked+"1;"), flood("e", endless)).flood(),
		accepted("a bad chunk size", request, say(chunked+"zz\r\nhello\r\n"), hold).rows("T-06"),
		accepted("a huge chunk size", request, say(chunked+"ffffffffffffffff\r\nhello"), hold).rows("T-06").slow(),
		accepted("a chunk size ended by a bare line feed", request, say(chunked+"2\nok\r\n0\r\n\r\n"), hold).rows("T-06"),
		accepted("endless trailers", request, say(chunked+"2\r\nok\r\n0\r\n"), flood("X-Trailer: 1\r\n", endless)).flood().rows("T-04"),
		accepted("a gzip bomb", request, bomb(8<<20, 1)).rows("T-03").kept(),
		accepted("a gzip bomb in gzip", request, bomb(8<<20, 2)).rows("T-03").kept(),
		accepted("a content encoding that is none", request,
			say(ok+"Content-Encoding: br, gzip, x\r\nContent-Length: 2\r\n\r\nok")).rows("T-03").kept(),
		accepted("a byte of the body at a time", request, say(ok+"Content-Length: 1000\r\n\r\n"),
			drip(strings.Repeat("x", 1000))).rows("T-02").slow(),
		accepted("a body that stops", request, say(ok+"Content-Length: 1000\r\n\r\nhello"), hold).rows("T-02").slow(),
		accepted("a body of NUL and bad UTF-8", request, say(ok+"Content-Length: 4\r\n\r\n\x00\xff\xc0\x80")).rows("T-28").kept(),
		accepted("a body that is a page with a script", request, say(ok+"Content-Type: text/html\r\nContent-Length: "+
			strconv.Itoa(len(page))+"\r\n\r\n"+page)).rows("T-25").kept(),
	)
}

// withoutBody returns the steps of an answer without a body.
func withoutBody(line, fields string) []step {
	return []step{request, say("HTTP/1.1 " + line + "\r\nContent-Length: 0\r\n" + fields + "\r\n")}
}

func hostileAnswers() []Hostile {
	const page = "<script>alert(1)</script>"
	status := func(code, fields string) Hostile {
		return rejected(code, "http_status: "+code[:3], withoutBody(code, fields)...).kept()
	}
	slowDown := hostile("429 and a Retry-After that is no time", postrider.OutcomeThrottled, "http_status: 429",
		withoutBody("429 Slow Down", "Retry-After: -99999999999999999999\r\n")).rows("T-05").kept()
	forever := slowDown
	forever.Name = "429 and a Retry-After of a billion years"
	forever.steps = withoutBody("429 Slow Down", "Retry-After: 31556952000000000\r\n")
	busy := hostile("503 and a Retry-After that is a number of another kind", postrider.OutcomeThrottled, "http_status: 503",
		withoutBody("503 Unavailable", "Retry-After: 1e300\r\n")).rows("T-05").kept()
	return in("answer", "T-06",
		status("401 Unauthorized", "WWW-Authenticate: Negotiate\r\nWWW-Authenticate: Basic realm=\"x\"\r\n").rows("T-08"),
		status("407 Proxy Authentication Required", "Proxy-Authenticate: Basic\r\n").rows("T-08"),
		status("413 Too Large", "").rows("T-08"),
		hostile("503 Unavailable", postrider.OutcomeThrottled, "http_status: 503", withoutBody("503 Unavailable", "")).rows("T-05").kept(),
		status("999 Denied", ""),
		rejected("a reason that is a page", "http_status: 500", withoutBody("500 "+page, "X-Page: "+page+"\r\n")...).rows("T-25").kept(),
		hostile("410", postrider.OutcomeGone, "http_status: 410", withoutBody("410 Gone", "")).rows("T-52").kept(),
		slowDown, forever, busy,
		accepted("Set-Cookie", withoutBody("200 OK", "Set-Cookie: a=b; Domain=com\r\n")...).rows("T-10").kept(),
		accepted("Strict-Transport-Security", withoutBody("200 OK", "Strict-Transport-Security: max-age=63072000\r\n")...).rows("T-10").kept(),
		accepted("Alt-Svc", withoutBody("200 OK", "Alt-Svc: h3=\":443\"; ma=86400\r\n")...).rows("S-13").kept(),
		accepted("an answer at the last moment", request, wait(lastMoment), say(ok+"Content-Length: 0\r\n\r\n")).rows("T-02").kept(),
	)
}

// lastMoment is the latest time for an answer before a deadline of a second that machines under
// load still keep.
const lastMoment = 600 * time.Millisecond

func hostileRedirects() []Hostile {
	redirect := func(status, location string) Hostile {
		return rejected(status+" to "+location, "redirect",
			withoutBody(status+" Moved", "Location: "+location+"\r\n")...).kept()
	}
	long := redirect("307", "https://"+strings.Repeat("a", 8000)+".example/")
	long.Name = "307 to a name of 8,000 letters"
	return in("answer", "S-13",
		redirect("301", "http://169.254.169.254/latest/meta-data/"),
		redirect("302", "/"),
		redirect("303", "file:///etc/passwd"),
		redirect("307", "http://127.0.0.1:22/"),
		redirect("307", "?again"),
		redirect("308", "//evil.example/%zz"),
		redirect("308", "http://[::ffff:10.0.0.1]/"),
		redirect("308", "gopher://10.0.0.1:6379/_FLUSHALL"),
		redirect("307", "javascript:alert(1)"),
		redirect("307", "http://<script>alert(1)</script>/"),
		long,
		rejected("300 without a Location", "redirect", withoutBody("300 Multiple Choices", "")...).kept(),
	)
}
