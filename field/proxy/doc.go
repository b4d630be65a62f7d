// Package proxy tests rejoin behind a real proxy: nginx, with buffering and compression on and a time-out of two seconds. It holds what
// docs/proxies.md says of nginx, whose configuration it runs.
//
// nginx is not needed for `go test work`: `make proxy` runs these tests, with the build tag nginx.
package proxy
