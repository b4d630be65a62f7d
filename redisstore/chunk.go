package redisstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/rueidis"

	"github.com/rejoin-mcp/rejoin/eventstore"
)

// maxEvents is how many events a chunk has at most: how many rejoin gives in one call.
const maxEvents = 128

// countBytes is the size of the number that a chunk begins with.
const countBytes = 2

// encode makes a chunk of events; see session.lua. No events are no chunk: "".
func encode(events [][]byte) (string, error) {
	if len(events) == 0 {
		return "", nil
	}
	if len(events) > maxEvents {
		return "", fmt.Errorf("redisstore: %d events in one call, at most %d are allowed", len(events), maxEvents)
	}
	size := countBytes + 4*len(events)
	for _, data := range events {
		size += len(data)
	}
	chunk := binary.LittleEndian.AppendUint16(make([]byte, 0, size), uint16(len(events))) //nolint:gosec // at most maxEvents
	for _, data := range events {
		chunk = binary.LittleEndian.AppendUint32(chunk, uint32(len(data))) //nolint:gosec // the engine takes at most 512 MiB
		chunk = append(chunk, data...)
	}
	return rueidis.BinaryString(chunk), nil
}

var errPiece = errors.New("redisstore: the engine has answered with half an event")

// decode fills buf with the events of a piece, from seq on, and returns how many those are. They share the memory of the piece.
func decode(piece []byte, seq uint64, buf []eventstore.Event) (n int, err error) {
	for len(piece) > 0 {
		if len(piece) < 4 || n == len(buf) {
			return n, errPiece
		}
		size := int(binary.LittleEndian.Uint32(piece))
		if piece = piece[4:]; len(piece) < size {
			return n, errPiece
		}
		buf[n] = eventstore.Event{Seq: seq + uint64(n), Data: slices.Clip(piece[:size])}
		piece = piece[size:]
		n++
	}
	return n, nil
}
