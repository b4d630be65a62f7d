package door

import (
	"strconv"
	"strings"
)

// Accepted reports which forms of an answer a client accepts (HTTP semantics, RFC 9110 12.5.1: the most specific range decides, q=0 refuses,
// a missing header accepts everything).
func Accepted(header []string) (json, stream bool) {
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

// IsJSON reports whether a Content-Type is application/json, with any parameters, in any case.
func IsJSON(contentType string) bool {
	name, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(name), "application/json")
}
