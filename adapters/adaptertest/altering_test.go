package adaptertest

import (
	"io"
	"net/http"
	"slices"
	"strings"
)

// alter changes a request or its answer as some routers and middleware do. It returns false if it has answered the request itself.
func alter(flaw string, w http.ResponseWriter, q *http.Request) (http.ResponseWriter, bool) {
	switch flaw {
	case "limits bodies":
		if q.ContentLength > maxBody/2 {
			http.Error(w, "Request Entity Too Large", http.StatusRequestEntityTooLarge)
			return w, false
		}
	case "looks for a form":
		_ = q.FormValue("token")
	case "eats the body":
		_, _ = io.Copy(io.Discard, q.Body)
	case "overrides the method":
		if m := q.Header.Get("X-HTTP-Method-Override"); m != "" {
			q.Method = m
		}
	case "keeps the last line of a field":
		for name, values := range q.Header {
			q.Header[name] = slices.Clone(values[max(len(values)-1, 0):])
		}
	case "has a page for each error", "has a 404 of its own", "adds a charset", "forgets Retry-After", "forgets Allow", "fills what is empty",
		"wraps errors", "loses the id", "makes 202 out of 204", "names the session always":
		return &alteringWriter{ResponseWriter: w, flaw: flaw, session: q.Header.Get(sessionHeader)}, true
	}
	return w, true
}

// alteringWriter is a response writer that changes the answer.
type alteringWriter struct {
	http.ResponseWriter
	flaw, session string
	status        int
	replaced      bool // drop the server's own body
}

func (w *alteringWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *alteringWriter) page(text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.ResponseWriter.WriteHeader(w.status)
	_, _ = io.WriteString(w.ResponseWriter, text)
	w.replaced = true
}

func (w *alteringWriter) WriteHeader(status int) {
	w.status = status
	switch {
	case w.flaw == "has a page for each error" && status >= 400, w.flaw == "has a 404 of its own" && status == http.StatusNotFound:
		w.page(http.StatusText(status))
		return
	case w.flaw == "fills what is empty" && status == http.StatusAccepted:
		w.page(http.StatusText(status))
		return
	case w.flaw == "adds a charset" && w.Header().Get("Content-Type") == "application/json":
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	case w.flaw == "forgets Retry-After":
		w.Header().Del("Retry-After")
	case w.flaw == "forgets Allow":
		w.Header().Del("Allow")
	case w.flaw == "makes 202 out of 204" && status == http.StatusNoContent:
		status = http.StatusAccepted
	case w.flaw == "names the session always" && w.session != "":
		w.Header().Set(sessionHeader, w.session)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *alteringWriter) Write(p []byte) (int, error) {
	switch {
	case w.replaced:
		return len(p), nil
	case w.status < 400:
	case w.flaw == "wraps errors":
		_, err := io.WriteString(w.ResponseWriter, `{"error":`+string(p)+`}`)
		return len(p), err
	case w.flaw == "loses the id":
		_, err := io.WriteString(w.ResponseWriter, strings.Replace(string(p), `"id":"p"`, `"id":null`, 1))
		return len(p), err
	}
	return w.ResponseWriter.Write(p)
}
