//go:build nginx

package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is the deadline of everything that a test waits for. It is far beyond what that takes.
const patience = time.Minute

// front is one configuration of nginx in front of a server. All of them buffer and compress.
type front struct {
	name     string
	tls      bool   // HTTP/2 over TLS; otherwise HTTP/1.1
	location string // the directives of the location, besides proxy_pass
}

// Before nginx 1.29.7 the upstream version is 1.0 by default. It is set explicitly, to be tested with newer releases too.
var (
	plain = front{name: "upstream 1.0", location: "proxy_http_version 1.0;"}
	kept  = front{name: "upstream 1.1 kept alive", location: `proxy_http_version 1.1; proxy_set_header Connection "";`}
	http2 = front{name: "HTTP 2 in front", tls: true, location: kept.location}
)

func fronts() []front { return []front{plain, kept, http2} }

// TestMain lets all tests run in parallel: they mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "64"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// nginx is a running nginx with one front.
type nginx struct {
	URL    string
	Client *http.Client

	cmd  *exec.Cmd
	dir  string
	conf string
}

// settings are the parts of the configuration that tests change. Each has a default.
type settings struct {
	limit    time.Duration // proxy_read_timeout; 2 s
	server   string        // directives of the server block
	main     string        // directives of the main context
	location string        // the server and upstream blocks; %s is the address of the backend
}

// run starts nginx in front of the backend, and ends it with the test.
func run(t *testing.T, backend string, f front, s settings) *nginx {
	t.Helper()
	binary, err := exec.LookPath("nginx")
	if err != nil {
		binary = "/usr/sbin/nginx" // Debian's, which is in root's path only
		_, err = os.Stat(binary)
	}
	require.NoError(t, err, "these tests need nginx: apt-get install nginx-light")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	// nginx inherits the socket. So no other process can get its port, and a client that connects before nginx runs waits in its queue.
	socket, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	defer socket.Close()
	n := &nginx{dir: t.TempDir(), URL: "http://" + l.Addr().String() + "/mcp"}
	listen, transport := l.Addr().String(), &http.Transport{}
	if f.tls {
		n.URL = "https://" + l.Addr().String() + "/mcp"
		transport.ForceAttemptHTTP2 = true
		transport.TLSClientConfig = &tls.Config{RootCAs: n.certify(t), MinVersion: tls.VersionTLS12}
		listen += " ssl http2"
		s.server += fmt.Sprintf("ssl_certificate %[1]s/cert.pem; ssl_certificate_key %[1]s/key.pem;", n.dir)
	}
	require.NoError(t, l.Close())
	n.conf = n.write(t, backend, listen, f, s)

	n.Client = &http.Client{Transport: transport}
	n.cmd = exec.Command(binary, "-p", n.dir, "-c", n.conf, "-e", filepath.Join(n.dir, "error.log"))
	n.cmd.Env = append(os.Environ(), "NGINX=3;")
	n.cmd.ExtraFiles = []*os.File{socket}
	require.NoError(t, n.cmd.Start())
	// Starting the process made the socket blocking, and nginx does not change that: one of two workers would hang in accept.
	raw, err := socket.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { require.NoError(t, syscall.SetNonblock(int(fd), true)) }))
	ended := make(chan error, 1)
	go func() { ended <- n.cmd.Wait() }()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = n.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = n.cmd.Process.Kill()
			t.Error("nginx did not end")
		}
		if t.Failed() {
			t.Logf("error.log of nginx:\n%s", n.log(t))
		}
	})
	return n
}

func (n *nginx) write(t *testing.T, backend, listen string, f front, s settings) string {
	if s.limit == 0 {
		s.limit = 2 * time.Second
	}
	if s.location == "" {
		s.location = "upstream behind { server %s; keepalive 16; }\nserver { include server.conf; location / {" + f.location +
			" proxy_set_header Host $http_host; proxy_pass http://behind; } }"
	}
	s.location = strings.ReplaceAll(s.location, "%s", backend)
	user := ""
	if os.Geteuid() == 0 { // by default the workers' user cannot read the test's folder
		user = "user root;"
	}
	conf := filepath.Join(n.dir, "nginx.conf")
	require.NoError(t, os.WriteFile(filepath.Join(n.dir, "server.conf"), fmt.Appendf(nil, "listen %s;\n%s\n", listen, s.server), 0o600))
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, `
daemon off; pid nginx.pid; error_log error.log error; worker_processes 1; %[1]s %[2]s
events { worker_connections 256; }
http {
access_log off;
client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
gzip on; gzip_min_length 0; gzip_types *;
proxy_buffering on;
proxy_read_timeout %[3]dms;
%[4]s
}
`, user, s.main, s.limit.Milliseconds(), s.location), 0o600))
	return conf
}

// certify makes a self-signed certificate for the address, and returns a pool with it.
func (n *nginx) certify(t *testing.T) *x509.CertPool {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	now := time.Now()
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IPAddresses: []net.IP{{127, 0, 0, 1}},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(n.dir, name), pem.EncodeToMemory(block), 0o600))
	}
	return pool
}

func (n *nginx) url() string          { return n.URL }
func (n *nginx) client() *http.Client { return n.Client }

// address is where it listens.
func (n *nginx) address() string {
	_, rest, _ := strings.Cut(n.URL, "://")
	return strings.TrimSuffix(rest, "/mcp")
}

// log returns the error log.
func (n *nginx) log(t *testing.T) string {
	text, err := os.ReadFile(filepath.Join(n.dir, "error.log"))
	require.NoError(t, err)
	return string(text)
}

// cuts counts the answers that nginx cut because nothing came for longer than the limit.
func (n *nginx) cuts(t *testing.T) int { return strings.Count(n.log(t), "upstream timed out") }

// reload replaces before by after in the configuration, which changes the header Generation, and returns when answers have the new one.
func (n *nginx) reload(t *testing.T, before, after string) {
	path := filepath.Join(n.dir, "server.conf")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), before)
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(text), before, after)), 0o600))
	require.NoError(t, n.cmd.Process.Signal(syscall.SIGHUP))
	for deadline := time.Now().Add(patience); ; {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodHead, n.URL, http.NoBody)
		require.NoError(t, err)
		r.Close = true // a connection of its own
		answer, err := n.Client.Do(r)
		if err == nil {
			_ = answer.Body.Close()
			if answer.Header.Get("Generation") == after {
				return
			}
		}
		require.True(t, time.Now().Before(deadline), "nginx did not reload: %v", err)
	}
}
