package client

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// The states of a task.
const (
	taskWorking   = "working"
	taskInput     = "input_required"
	taskCompleted = "completed"
	taskFailed    = "failed"
	taskCancelled = "cancelled"
)

// inputRequest is a question in a result of the modern era.
type inputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// task is what an answer says of a task.
type task struct {
	ID        string                  `json:"taskId"`
	Status    string                  `json:"status"`
	Message   string                  `json:"statusMessage"`
	Updated   string                  `json:"lastUpdatedAt"`
	Interval  json.RawMessage         `json:"pollIntervalMs"`
	Questions map[string]inputRequest `json:"inputRequests"`
	Result    json.RawMessage         `json:"result"`
	Err       json.RawMessage         `json:"error"`
}

// decodeTask reads the answer that makes a task: ids and states only, since the rest is asked for.
func decodeTask(raw []byte) (task, error) {
	var t task
	if err := decodeResult(raw, &t); err != nil {
		return task{}, err
	}
	switch t.Status {
	case taskWorking, taskInput, taskCompleted, taskFailed, taskCancelled:
	default:
		return task{}, fmt.Errorf("%w: a task whose status is %.40q", ErrProtocol, t.Status)
	}
	if !isTaskID(t.ID) {
		return task{}, fmt.Errorf("%w: a task whose id has %d bytes", ErrProtocol, len(t.ID))
	}
	return t, nil
}

// decodeDetailed reads the answer to tasks/get for the task of that id.
func decodeDetailed(raw []byte, id string) (task, error) {
	t, err := decodeTask(raw)
	switch {
	case err != nil:
		return task{}, err
	case t.ID != id:
		return task{}, fmt.Errorf("%w: another task than the one asked for", ErrProtocol)
	case t.Status == taskCompleted && isNull(t.Result), t.Status == taskFailed && isNull(t.Err), t.Status == taskInput && t.Questions == nil:
		return task{}, fmt.Errorf("%w: a task that is %s, without what belongs to that", ErrProtocol, t.Status)
	}
	return t, nil
}

// interval is the time between two polls that the server asks for, within bounds; negative: it asks for none.
func (t task) interval() time.Duration {
	var ms float64
	if json.Unmarshal(t.Interval, &ms) != nil || ms <= 0 {
		return -1
	}
	return max(taskFloor, time.Duration(math.Ceil(min(ms, float64(taskCeiling/time.Millisecond))))*time.Millisecond)
}

// isTaskID reports whether a text can be the id of a task, which goes into header fields and tokens.
func isTaskID(id string) bool { return id != "" && len(id) <= maxFieldBytes && utf8.ValidString(id) }

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func decodeResult(raw []byte, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%w: a result that cannot be read: %w", ErrProtocol, err)
	}
	return nil
}
