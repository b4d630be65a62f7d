// Package proxy tests rejoin behind a real proxy: nginx, with buffering and compression on and a time-out of two seconds. It tests what
// docs/proxies.md says about nginx, with the configuration of that page. It also tests the recipes of docs/replicas.md, behind nginx and HAProxy.
//
// Neither is needed for `go test work`: `make proxy` runs these tests, with the build tag nginx. Only the manifest for Kubernetes is tested without.
package proxy
