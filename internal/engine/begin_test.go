package engine

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What naming writes is what Adopt reads.
func TestTheDescriptionOfAStream(t *testing.T) {
	request := func(id string) *Request { return &Request{id: id} }
	for _, tt := range []struct {
		name string
		st   stream
		want aboutStream
	}{
		{"the standalone stream", stream{}, aboutStream{}},
		{
			"a call", stream{n: 7, method: "tools/call", requests: []*Request{request(`"a<\"b"`)}, retain: 5 * time.Minute},
			aboutStream{Number: 7, Method: "tools/call", Requests: []json.RawMessage{json.RawMessage(`"a<\"b"`)}, Retain: 5 * time.Minute},
		},
		{
			"a batch", stream{n: 1<<32 - 1, method: "x/\u2028\"\n", requests: []*Request{request("1"), request("-2.5e3")}, batch: true, retain: -1},
			aboutStream{
				Number: 1<<32 - 1, Method: "x/\u2028\"\n", Requests: []json.RawMessage{json.RawMessage("1"), json.RawMessage("-2.5e3")}, Batch: true, Retain: -1,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got aboutStream
			name, about := tt.st.naming("session", true)
			require.Equal(t, StreamName("session", tt.st.id), name)
			require.NoError(t, json.Unmarshal([]byte(about), &got), about)
			require.Equal(t, tt.want, got)
		})
	}
}
