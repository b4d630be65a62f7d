package jsonrpc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// bodies are of the sorts that are posted, and of those that are hard to read.
func bodies() map[string][]byte {
	request := func(params string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":` + params + `}`)
	}
	var items []string
	for range 400 {
		items = append(items, `{"id":12345,"name":"some item","price":12.50,"tags":["a","bb","ccc"],"ok":true,"note":null}`)
	}
	data := request(`{"items":[` + strings.Join(items, ",") + `]}`)
	var indented bytes.Buffer
	if err := json.Indent(&indented, data, "", "  "); err != nil {
		panic(err)
	}
	return map[string][]byte{
		"small":    request(`{"name":"search","arguments":{"query":"weather in Paris","limit":10},"_meta":{"progressToken":"abc"}}`),
		"data":     data,
		"indented": indented.Bytes(),
		"base64":   request(`{"blob":"` + strings.Repeat("QUJDRGVmZ2hpamts", 4096) + `"}`),
		"escapes":  request(`{"text":"` + strings.Repeat(`line \"one\"\nline \u00e4\t`, 2048) + `"}`),
		"unicode":  request(`{"text":"` + strings.Repeat(`größe und 漢字仮名 😀 `, 2048) + `"}`),
		"numbers":  request(`{"v":[` + strings.Repeat(`-12.345e-6,0,1234567,`, 2048) + `0]}`),
		"brackets": request(`{"v":[` + strings.Repeat(`[[{}],[]],`, 4096) + `0]}`),
	}
}

func BenchmarkParse(b *testing.B) {
	for name, body := range bodies() {
		b.Run(name+"/jsonrpc.Parse", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(body, 64); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/json.Valid", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if !json.Valid(body) {
					b.Fatal("not valid")
				}
			}
		})
		b.Run(name+"/json.Unmarshal", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				var m struct {
					Version string          `json:"jsonrpc"`
					ID      json.RawMessage `json:"id"`
					Method  string          `json:"method"`
					Params  json.RawMessage `json:"params"`
					Result  json.RawMessage `json:"result"`
					Error   json.RawMessage `json:"error"`
				}
				if err := json.Unmarshal(body, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkField(b *testing.B) {
	for _, name := range []string{"small", "data"} {
		m, err := Parse(bodies()[name], 64)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(m.Params)))
			b.ReportAllocs()
			for b.Loop() {
				Field(m.Params, "_meta", "progressToken")
			}
		})
	}
}

func BenchmarkValid(b *testing.B) {
	for name, body := range bodies() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if !Valid(body) {
					b.Fatal("not valid")
				}
			}
		})
	}
}
