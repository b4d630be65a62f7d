package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/rejoin-mcp/rejoin"
)

// modernVersion is the version of the modern era that this package speaks.
const modernVersion = "2026-07-28"

// Era says which generation of the protocol a session speaks. The legacy era (versions up to 2025-11-25) has sessions, and streams that are
// polled. The modern era (2026-07-28) has neither: there a call lives on without its connection if the server makes it a task.
type Era int

const (
	// EraAuto chooses the era in which long calls live, with one request before initialize (server/discover): the modern era if the server
	// announces tasks there, else the legacy era, and the modern era also if the server has no other.
	EraAuto Era = iota
	// EraLegacy speaks the legacy era only. It brings every message of a call, however long the call takes; a task brings the newest one.
	EraLegacy
	// EraModern speaks the modern era only.
	EraModern
)

// probeTimeout bounds how long EraAuto waits for the answer to server/discover, of which an old server may know nothing.
const probeTimeout = 10 * time.Second

// discovery is what server/discover says.
type discovery struct {
	Versions     []string `json:"supportedVersions"`
	Capabilities struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	} `json:"capabilities"`
}

// modern reports whether the server speaks our modern version; legacy, whether it speaks one with sessions.
func (d discovery) modern() bool { return slices.Contains(d.Versions, modernVersion) }

func (d discovery) legacy() bool {
	return slices.ContainsFunc(d.Versions, func(v string) bool { return slices.Contains(versions, v) })
}

// tasks reports whether the server announces tasks: the value must be an object.
func (d discovery) tasks() bool {
	var settings map[string]json.RawMessage
	return json.Unmarshal(d.Capabilities.Extensions[tasksExtension], &settings) == nil && settings != nil
}

// open finds the era, and begins the session in it.
func (s *Session) open(ctx context.Context) error {
	switch s.cfg.Era {
	case EraLegacy:
		return s.initialize(ctx)
	case EraModern:
		return s.openModern(ctx)
	}
	found, err := s.probe(ctx)
	switch {
	case isUnsent(err), errors.Is(err, ErrRedirect), ctx.Err() != nil:
		return withoutUnsent(err)
	case found.modern() && (found.tasks() || !found.legacy()):
		return nil
	}
	server := s.server
	s.become("")
	if err = s.initialize(ctx); err == nil {
		return nil
	}
	version, refused := errors.AsType[*VersionError](err)
	switch {
	case !refused:
		return err
	case found.modern():
		s.drop(ctx)
		s.become(modernVersion)
		s.server = server
		return nil
	case slices.Contains(version.Offered, modernVersion) && s.openModern(ctx) == nil: // the probe was lost
		s.drop(ctx)
		return nil
	}
	s.become("")
	return err
}

// probe asks a server of unknown era what it speaks. Some servers of the legacy era open a session at any request: that one is ended.
func (s *Session) probe(ctx context.Context) (discovery, error) {
	asking, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	opened := ""
	found, err := s.discover(asking, func(h http.Header) { opened, _ = field(h, "Mcp-Session-Id") })
	if err == nil || opened == "" || !sendable(opened) {
		return found, err
	}
	s.become("")
	s.setID(opened)
	s.drop(ctx)
	return found, err
}

// drop ends the session that a server has opened in vain.
func (s *Session) drop(ctx context.Context) {
	if s.ID() == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, shortTimeout)
	defer cancel()
	_ = s.remove(ctx) // it ends by itself, later
	s.setID("")
}

// openModern begins a session of the modern era, which is nothing but the knowledge that the server speaks it.
func (s *Session) openModern(ctx context.Context) error {
	found, err := s.discover(ctx, nil)
	var refused *StatusError
	var e *Error
	switch {
	case err == nil && found.modern():
		return nil
	case err == nil:
		return &VersionError{Offered: found.Versions, speaks: modernVersion}
	case errors.As(err, &e) && e.Code == codeVersion:
		var data struct {
			Supported []string `json:"supported"`
		}
		_ = json.Unmarshal(e.Data, &data) // then none were named
		return &VersionError{Offered: data.Supported, Err: err, speaks: modernVersion}
	case errors.As(err, &e) && (e.Code == rejoin.CodeMethodNotFound || e.Code == rejoin.CodeInvalidRequest),
		errors.As(err, &refused) && (refused.Status == http.StatusNotFound || refused.Status == http.StatusMethodNotAllowed):
		return &VersionError{Err: err, speaks: modernVersion}
	}
	return withoutUnsent(err)
}

// discover asks the server what it speaks, and shows head the header of the answer. From then on the session is one of the modern era, until
// become says otherwise.
func (s *Session) discover(ctx context.Context, head func(http.Header)) (discovery, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(s.ctx, func() { stop(context.Cause(s.ctx)) })()
	s.become(modernVersion)
	// The id does not belong to a later request, whichever era is chosen.
	raw, err := s.ask(ctx, modernRequest{id: "0", stream: "0", method: "server/discover", idle: s.cfg.IdleTimeout, head: head}, nil)
	var found discovery
	if err == nil {
		s.server = raw
		err = decodeResult(raw, &found)
	}
	return found, err
}

// become sets the version that requests name. "" is that of the legacy era before initialize.
func (s *Session) become(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.modern = version, version == modernVersion
}
