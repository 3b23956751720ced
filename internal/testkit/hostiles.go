package testkit

import (
	"slices"
	"strings"

	"github.com/postrider/postrider"
)

const (
	endless = 1 << 40 // times, for a flood that only the sender ends
	ok      = "HTTP/1.1 200 OK\r\n"
)

// Hostiles returns every misbehaviour. A sender's deadline must be well below
// a second for those that are slow: they go on until it has passed.
func Hostiles() []Hostile {
	return slices.Concat(hostileConnections(), hostileHeads(), hostileLengths(), hostileBodies(), hostileAnswers())
}

func accepted(name string, acts ...act) Hostile {
	return Hostile{Name: name, Outcome: postrider.OutcomeAccepted, acts: acts}
}

func timedOut(name string, acts ...act) Hostile {
	return Hostile{Name: name, Outcome: postrider.OutcomeTimedOut, Error: "timeout", acts: acts}
}

func cut(name string, acts ...act) Hostile {
	return Hostile{Name: name, Outcome: postrider.OutcomeBroken, Error: "connection_cut", acts: acts}
}

func garbled(name string, acts ...act) Hostile {
	return Hostile{Name: name, Outcome: postrider.OutcomeBroken, Error: "bad_response", acts: acts}
}

func rejected(name, err string, acts ...act) Hostile {
	return Hostile{Name: name, Outcome: postrider.OutcomeRejected, Error: err, acts: acts}
}

func flooding(h Hostile) Hostile {
	h.Flood = true
	return h
}

func hostileConnections() []Hostile {
	return []Hostile{
		timedOut("accept and never read", stall),
		timedOut("read and never answer", request, hold),
		timedOut("read one byte and stop", some, stall),
		cut("reset in the request", some, reset),
		cut("reset after the request", request, reset),
		cut("close after the request", request),
		cut("half-close after the request", request, halfClose),
		cut("reset in the head", request, say("HTTP/1.1 200 OK\r\nContent-"), reset),
		cut("close in the head", request, say("HTTP/1.1 200 OK\r\nContent-")),
		accepted("reset in the body", request, say(ok+"Content-Length: 100\r\n\r\nhalf"), reset),
		accepted("200 and reset", request, say(ok+"Content-Length: 0\r\n\r\n"), reset),
		accepted("close between requests", request, say(ok+"Content-Length: 2\r\n\r\nok")),
		accepted("connection: close always", request, say(ok+"Connection: close\r\nContent-Length: 2\r\n\r\nok")),
		accepted("answer before the request was read", some, say(ok+"Content-Length: 2\r\n\r\nok"), hold),
		accepted("two answers to one request", request, say(strings.Repeat(ok+"Content-Length: 2\r\n\r\nok", 2)), hold),
	}
}

func hostileHeads() []Hostile {
	const interim = "HTTP/1.1 100 Continue\r\n\r\n"
	return []Hostile{
		garbled("no status line", request, say("Content-Length: 0\r\n\r\n"), hold),
		garbled("garbage", request, say("\x00\xff\x16\x03\x01 \x07\r\n\r\n"), hold),
		garbled("status 99", request, say("HTTP/1.1 99 Early\r\n\r\n"), hold),
		garbled("status 000", request, say("HTTP/1.1 000 None\r\nContent-Length: 0\r\n\r\n"), hold),
		garbled("status 1000", request, say("HTTP/1.1 1000 Late\r\n\r\n"), hold),
		garbled("a status of letters", request, say("HTTP/1.1 abc OK\r\n\r\n"), hold),
		garbled("HTTP/0.9", request, say("<html>hello</html>\r\n"), hold),
		garbled("HTTP/2", request, say("\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64\r\n\r\n"), hold),
		accepted("HTTP/1.0 without a length", request, say("HTTP/1.0 200 OK\r\n\r\nhello")),
		timedOut("a byte of the head at a time", request, drip(ok+"Content-Length: 0\r\nX-Slow: "+strings.Repeat("x", 4096))),
		flooding(garbled("a header of 10 MB", request, say(ok+"X-Big: "), flood("x", 10<<20))),
		flooding(garbled("a million headers", request, say(ok), flood("X-Many: 1\r\n", 1<<20))),
		garbled("NUL in a header", request, say(ok+"X-Nul\x00: 1\r\nContent-Length: 0\r\n\r\n"), hold),
		garbled("a header without a name", request, say(ok+": 1\r\nContent-Length: 0\r\n\r\n"), hold),
		garbled("a header without a colon", request, say(ok+"nonsense\r\n\r\n"), hold),
		flooding(garbled("endless 100 Continue", request, flood(interim, endless))),
		flooding(garbled("endless 103 Early Hints", request, flood("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", endless))),
		accepted("three 100 Continue", request, say(strings.Repeat(interim, 3)+ok+"Content-Length: 0\r\n\r\n"), hold),
		rejected("101 Switching Protocols", "bad_response", request,
			say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"), hold),
	}
}

func hostileLengths() []Hostile {
	return []Hostile{
		accepted("204 with a body", request, say("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"), hold),
		rejected("304 with a body", "redirect", request, say("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello"), hold),
		accepted("the same length twice", request, say(ok+"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok"), hold),
		garbled("two lengths", request, say(ok+"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!"), hold),
		garbled("a negative length", request, say(ok+"Content-Length: -1\r\n\r\n"), hold),
		garbled("a length of letters", request, say(ok+"Content-Length: two\r\n\r\nok"), hold),
		accepted("a length and chunks", request, say(ok+"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), hold),
		garbled("an unknown transfer encoding", request, say(ok+"Transfer-Encoding: rot13\r\n\r\nbx"), hold),
		accepted("1 TB announced, 5 bytes sent", request, say(ok+"Content-Length: 1099511627776\r\n\r\nhello")),
		accepted("1 TB announced, silence", request, say(ok+"Content-Length: 1099511627776\r\n\r\n"), hold),
		accepted("more than announced", request, say(ok+"Content-Length: 2\r\n\r\nok and more"), hold),
	}
}

func hostileBodies() []Hostile {
	const chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
	return []Hostile{
		flooding(accepted("an endless body", request, say(ok+"\r\n"), flood("x", endless))),
		flooding(accepted("endless chunks", request, say(chunked), flood("400\r\n"+strings.Repeat("x", 1024)+"\r\n", endless))),
		flooding(accepted("endless chunks of a byte", request, say(chunked), flood("1\r\nx\r\n", endless))),
		flooding(accepted("endless chunk extensions", request, say(chunked), flood("1;"+strings.Repeat("e", 1000)+"\r\nx\r\n", endless))),
		accepted("a bad chunk size", request, say(chunked+"zz\r\nhello\r\n"), hold),
		accepted("a huge chunk size", request, say(chunked+"ffffffffffffffff\r\nhello"), hold),
		accepted("a chunk size ended by a bare line feed", request, say(chunked+"2\nok\r\n0\r\n\r\n"), hold),
		flooding(accepted("endless trailers", request, say(chunked+"2\r\nok\r\n0\r\n"), flood("X-Trailer: 1\r\n", endless))),
		accepted("a gzip bomb", request, say(ok+"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xec\xc1\x01\x01\x00\x00\x00\x80\x90"), hold),
		accepted("a content encoding that is none", request, say(ok+"Content-Encoding: br, gzip, x\r\nContent-Length: 2\r\n\r\nok"), hold),
		accepted("a byte of the body at a time", request, say(ok+"Content-Length: 1000\r\n\r\n"), drip(strings.Repeat("x", 1000))),
		accepted("a body that stops", request, say(ok+"Content-Length: 1000\r\n\r\nhello"), hold),
		accepted("a body of NUL and bad UTF-8", request, say(ok+"Content-Length: 4\r\n\r\n\x00\xff\xc0\x80"), hold),
		accepted("a body of script", request, say(ok+"Content-Type: text/html\r\nContent-Length: 25\r\n\r\n<script>alert(1)</script>"), hold),
	}
}

func hostileAnswers() []Hostile {
	redirect := func(status, location string) Hostile {
		return rejected(status+" to "+location, "redirect", request,
			say("HTTP/1.1 "+status+" Moved\r\nLocation: "+location+"\r\nContent-Length: 0\r\n\r\n"), hold)
	}
	status := func(line, rest string) []act {
		return []act{request, say("HTTP/1.1 " + line + "\r\nContent-Length: 0\r\n" + rest + "\r\n"), hold}
	}
	return []Hostile{
		redirect("301", "http://169.254.169.254/latest/meta-data/"),
		redirect("302", "/"),
		redirect("303", "file:///etc/passwd"),
		redirect("307", "http://127.0.0.1:22/"),
		redirect("308", "//evil.example/%zz"),
		rejected("300 without a location", "redirect", status("300 Multiple Choices", "")...),
		rejected("401 with a challenge", "http_status: 401", status("401 Unauthorized", "WWW-Authenticate: Negotiate\r\n")...),
		rejected("407", "http_status: 407", status("407 Proxy Authentication Required", "Proxy-Authenticate: Basic\r\n")...),
		rejected("413", "http_status: 413", status("413 Too Large", "")...),
		rejected("503", "http_status: 503", status("503 Unavailable", "")...),
		rejected("503 and a hostile retry-after", "http_status: 503", status("503 Unavailable", "Retry-After: 1e300\r\n")...),
		rejected("999", "http_status: 999", status("999 Denied", "")...),
		{Name: "410", Outcome: postrider.OutcomeGone, Error: "http_status: 410", acts: status("410 Gone", "")},
		{
			Name: "429 and a hostile retry-after", Outcome: postrider.OutcomeThrottled, Error: "http_status: 429",
			acts: status("429 Slow Down", "Retry-After: -99999999999999999999\r\n"),
		},
		accepted("set-cookie", status("200 OK", "Set-Cookie: a=b\r\n")...),
		accepted("strict-transport-security", status("200 OK", "Strict-Transport-Security: max-age=63072000\r\n")...),
		accepted("alt-svc", status("200 OK", "Alt-Svc: h3=\":443\"; ma=86400\r\n")...),
	}
}
