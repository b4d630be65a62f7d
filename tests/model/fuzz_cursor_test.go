package model_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rejoin-mcp/rejoin/tests/internal/kit"
)

// FuzzCursor polls with any cursor. A cursor that the session never issued is refused, always in the same words. One past the end of a stream is
// answered by errors. Every other cursor is served from its position. A cursor may contain placeholders of the world, such as {A1.0}; flip changes
// one byte of it.
func FuzzCursor(f *testing.F) {
	for _, cursor := range []string{
		"{A1.0}", "{A1.1}", "{A2.0}", "{A2.1}", "{A3.0}", "{A3.1}", "{A0.0}", "{A0.1}", "{A0.2}", "{F1.0}", "{F3.1}", "{B1.0}", "{A1.1}0", "{A1.1}.z", "{A1.1}.0z", "{A1.1}.A", "{A1.1}.zA",
		"0{A1.1}", "{A1.1}{A1.1}", "garbage", "17", "AAAAAAAAAAAAAAAAAAAAAA.0", "AAAAAAAAAAAAAAAAAAAAAB.0", " {A1.1}", "{A2.1}8446744073709551616",
	} {
		f.Add(cursor, uint8(0), uint8(0))
	}
	for at := range uint8(30) { // cursors that are wrong in one place; at 21 are the unused bits of the name
		f.Add("{A1.0}", at, uint8(3))
		f.Add("{A1.1}", at, uint8(15))
	}
	f.Add(",00000", uint8('\x17'), uint8('H'))
	f.Add("{A1.1}, {A1.1}", uint8(0), uint8(0))
	f.Fuzz(func(t *testing.T, cursor string, at, flip uint8) {
		kit.Bubble(t, func(t *testing.T) {
			w := newFuzzWorld(t, 0)
			a := w.members[0]
			streams := map[string]uint64{} // the last sequence of each stream
			standalone, leave := w.get(a, "")
			for i, id := range eventIDsIn(standalone.text()) {
				w.tokens = append(w.tokens, "{A0."+strconv.Itoa(i)+"}", id)
				streams[id[:22]] = 2
			}
			for i, r := range a.running {
				streams[eventIDsIn(r.answer.text())[0][:22]] = []uint64{2, 2, 1}[i]
			}
			sealed := eventIDsIn(a.running[1].answer.text())[0][:22]
			cursor = strings.NewReplacer(w.tokens...).Replace(cursor)
			if cursor == "" {
				return
			}
			bytes := []byte(cursor)
			bytes[int(at)%len(bytes)] ^= flip
			cursor = string(bytes)
			got, cancel := w.get(a, cursor)
			cursor, one := joined(cursor)
			seq, known := canonical(cursor, streams)
			switch {
			case !one:
				w.refused(got, "")
				require.Equal(w.t, http.StatusBadRequest, got.Status, cursor)
				require.JSONEq(w.t, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"two different values of Last-Event-ID"}}`, got.text())
				require.False(w.t, standalone.Ended, "nothing was taken over")
			case cursor == "": // only white space and commas: no cursor
				require.Equal(w.t, http.StatusOK, got.Status)
			case !known:
				w.refused(got, "")
				require.Equal(w.t, http.StatusBadRequest, got.Status, cursor)
				require.JSONEq(w.t, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Last-Event-ID: this session never sent such an event id","data":{"reason":"unknown"}}}`,
					got.text())
				require.False(w.t, standalone.Ended, "nothing was taken over")
			case seq > streams[cursor[:22]] && !strings.Contains(standalone.text(), cursor[:22]): // past the end
				require.Equal(w.t, http.StatusOK, got.Status, cursor)
				read := readStream(w.t, got.text(), true)
				require.True(w.t, read.beyond)
				require.Equal(w.t, seq, read.from)
				require.False(w.t, standalone.Ended, "nothing was taken over")
			case seq > streams[cursor[:22]]:
				require.Equal(w.t, http.StatusOK, got.Status, cursor)
				require.Equal(w.t, streams[cursor[:22]], readStream(w.t, got.text(), true).from, "from what was written")
			case cursor[:22] == sealed && seq == 2:
				require.Equal(w.t, http.StatusNoContent, got.Status)
			default:
				require.Equal(w.t, http.StatusOK, got.Status, cursor)
				read := readStream(w.t, got.text(), true)
				require.Equal(w.t, cursor[:22], read.stream)
				require.Equal(w.t, seq, read.from)
				require.Len(w.t, read.messages, int(streams[read.stream]-seq))
			}
			got.finish(w.t, cancel)
			leave()
			w.proveAlive(w.foreign)
		})
	})
}

// canonical parses a cursor in another way than the server: it writes the canonical form and compares.
func canonical(cursor string, streams map[string]uint64) (seq uint64, ok bool) {
	for name := range streams {
		rest, mine := strings.CutPrefix(cursor, name+".")
		if !mine {
			continue
		}
		number, nonce, primer := strings.Cut(rest, ".")
		n, err := strconv.ParseUint(nonce, 36, 64)
		if primer && (err != nil || strconv.FormatUint(n, 36) != nonce) {
			return 0, false
		}
		seq, err := strconv.ParseUint(number, 10, 64)
		return seq, err == nil && strconv.FormatUint(seq, 10) == number
	}
	return 0, false
}

// joined splits a field that a proxy may have joined. Several equal values count as one.
func joined(field string) (value string, one bool) {
	if !strings.Contains(field, ",") {
		return field, true
	}
	parts := strings.Split(field, ",")
	value = strings.TrimSpace(parts[0])
	for _, part := range parts {
		if strings.TrimSpace(part) != value {
			return field, false
		}
	}
	return value, true
}
