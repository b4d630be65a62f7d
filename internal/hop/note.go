package hop

import (
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// Header is the header field that a forwarded request has, besides those of the client.
	Header = "Rejoin-Forwarded"
	// Mark is the header field of every answer to a forwarded request: the incarnation of the process that answers, or Other.
	Mark = "Rejoin-Answered"
	// Other is the Mark of a process that was not meant.
	Other = "other"
)

// Note is what a forwarded request says about its way, in Header. It excuses no check, so a client that sends one gains nothing.
type Note struct {
	To      string        // the incarnation of the process that is meant
	By      string        // the URL of the process that sends it
	NoFlush bool          // the response writer there cannot flush
	Left    time.Duration // the response must have ended in so long; 0: no limit
	Probe   bool          // it only asks whether the process answers
}

// String is the value of the header field.
func (n Note) String() string { return string(n.append(nil, url.QueryEscape(n.By))) }

// append appends the value. by is By in its escaped form.
func (n Note) append(b []byte, by string) []byte {
	b = append(append(b, n.To...), "; by="...)
	b = append(b, by...)
	if n.NoFlush {
		b = append(b, "; no-flush"...)
	}
	if n.Left > 0 {
		b = strconv.AppendInt(append(b, "; left="...), min(max(n.Left.Milliseconds(), 1), math.MaxInt32), 10)
	}
	if n.Probe {
		b = append(b, "; probe"...)
	}
	return b
}

// ParseNote reads the values of the header field. Parts that it does not know are ignored: a newer version may send them.
func ParseNote(values []string) (n Note, ok bool) {
	if len(values) != 1 {
		return Note{}, false
	}
	to, rest, _ := strings.Cut(values[0], ";")
	n.To = strings.TrimSpace(to)
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, ";")
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "by":
			n.By, _ = url.QueryUnescape(value)
		case "no-flush":
			n.NoFlush = true
		case "left":
			ms, err := strconv.ParseInt(value, 10, 32)
			if err != nil || ms <= 0 {
				return Note{}, false
			}
			n.Left = time.Duration(ms) * time.Millisecond
		case "probe":
			n.Probe = true
		}
	}
	return n, n.To != ""
}
