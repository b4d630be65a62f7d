package rejoin

import (
	"net/http"
	"strconv"
	"strings"
)

// accepted says which of the two forms of an answer a client takes (HTTP semantics, RFC 9110 12.5.1: the most specific range
// decides, q=0 refuses, no header at all takes everything).
func accepted(header []string) (json, stream bool) {
	if len(header) == 0 {
		return true, true
	}
	var forJSON, forStream preference
	for _, line := range header {
		for part := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(part, ";")
			name = strings.TrimSpace(name)
			yes := !refuses(params)
			switch {
			case strings.EqualFold(name, "application/json"):
				forJSON.is(3, yes)
			case strings.EqualFold(name, "application/*"):
				forJSON.is(2, yes)
			case strings.EqualFold(name, "text/event-stream"):
				forStream.is(3, yes)
			case strings.EqualFold(name, "text/*"):
				forStream.is(2, yes)
			case name == "*/*", name == "*": // the latter is sent by old URL libraries
				forJSON.is(1, yes)
				forStream.is(1, yes)
			}
		}
	}
	return forJSON.yes, forStream.yes
}

// acceptedMode is what the client of a request accepts.
func acceptedMode(r *http.Request) (Mode, *refusal) {
	switch json, stream := accepted(r.Header["Accept"]); {
	case !json && !stream:
		return Auto, &refuseAccept
	case !stream:
		return JSON, nil
	case !json:
		return SSE, nil
	}
	return Auto, nil
}

// preference is the verdict of the most specific range so far.
type preference struct {
	rank int
	yes  bool
}

func (p *preference) is(rank int, yes bool) {
	if rank >= p.rank {
		p.rank, p.yes = rank, yes
	}
}

// refuses reports whether the parameters of a media range have a quality of zero.
func refuses(params string) bool {
	for params != "" {
		var p string
		p, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && q == 0
		}
	}
	return false
}

// isJSON reports whether a Content-Type is application/json, with any parameters, in any case.
func isJSON(contentType string) bool {
	name, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(name), "application/json")
}

// single returns the one value of a field that must not have two. A proxy may have joined two lines to one (RFC 9110, 5.3): equal values count
// as one, in two lines or in one. So no value may have a comma, and none of ours has.
func single(lines []string) (string, bool) {
	switch {
	case len(lines) == 0:
		return "", true
	case len(lines) == 1 && strings.IndexByte(lines[0], ',') < 0: // nearly always
		return lines[0], true
	}
	value, _, _ := strings.Cut(lines[0], ",")
	value = strings.TrimSpace(value)
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			if strings.TrimSpace(part) != value {
				return "", false
			}
		}
	}
	return value, true
}
