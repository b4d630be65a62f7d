// Package longcalls tests that the calls of an SDK's unchanged tools become tasks. Both bridges run it with tools of their SDK.
//
// Each test runs in virtual time, with a real http.Server over in-memory pipes and a client of the modern era that sends raw requests.
package longcalls
