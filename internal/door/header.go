package door

import (
	"net/http"
	"strings"
)

// MaxHeaderBytes bounds the header of a POST, because calls keep it as long as they run.
const MaxHeaderBytes = 64 << 10

// HeaderBytes is the size of a header as RFC 9113 counts it (section 6.5.2), which is nearer to what it takes of the memory than what was sent.
func HeaderBytes(h http.Header) (n int) {
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v) + 32
		}
	}
	return n
}

// Single returns the one value of a header field that must not have two. A proxy may have joined two lines to one (RFC 9110, 5.3): equal values count
// as one, in two lines or in one. So no value may have a comma, and none of ours has.
func Single(lines []string) (string, bool) {
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
