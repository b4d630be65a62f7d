package rejoin

import (
	"strconv"
	"time"

	"github.com/rejoin-mcp/rejoin/core"
	"github.com/rejoin-mcp/rejoin/internal/engine"
	"github.com/rejoin-mcp/rejoin/internal/jsonrpc"
)

const taskTime = "2006-01-02T15:04:05.000Z" // ISO 8601

// appendTask appends a task as the client sees it (tasks, "task", version 2026-07-28): in the answer that creates it (resultType task, which has
// no details), or in the answer to tasks/get (complete).
func (srv *Server) appendTask(dst []byte, resultType string, v *engine.TaskView) []byte {
	dst = append(append(append(dst, `{"resultType":"`...), resultType...), `",`...)
	dst = srv.appendTaskFields(dst, v, resultType == "complete")
	return append(srv.appendMeta(dst, ""), '}')
}

// appendTaskNotification appends the notification of a change, for the listen request with that id.
func (srv *Server) appendTaskNotification(dst, listen []byte, v *engine.TaskView) []byte {
	params := srv.appendTaskFields([]byte{'{'}, v, true)
	params = append(append(append(params, `,"_meta":{"`+metaSubscriptionID+`":`...), listen...), "}}"...)
	return jsonrpc.AppendRequest(dst, nil, "notifications/tasks", params)
}

func (srv *Server) appendTaskFields(dst []byte, v *engine.TaskView, details bool) []byte {
	dst = append(append(append(dst, `"taskId":"`...), v.ID...), `","status":"`...)
	dst = append(append(dst, v.Status.String()...), `","createdAt":"`...)
	dst = v.Created.UTC().AppendFormat(dst, taskTime)
	dst = v.Updated.UTC().AppendFormat(append(dst, `","lastUpdatedAt":"`...), taskTime)
	dst = strconv.AppendInt(append(dst, `","ttlMs":`...), milliseconds(v.TTL), 10)
	dst = strconv.AppendInt(append(dst, `,"pollIntervalMs":`...), milliseconds(srv.cfg.Tasks.PollInterval), 10)
	if v.Message != "" {
		dst = jsonrpc.AppendString(append(dst, `,"statusMessage":`...), v.Message)
	}
	if !details {
		return dst
	}
	switch v.Status {
	case core.TaskInputRequired:
		return appendQuestions(append(dst, `,"inputRequests":`...), v.Questions)
	case core.TaskCompleted, core.TaskFailed:
		m, _ := jsonrpc.Parse(v.Response, maxJSONDepth) // it was parsed before
		if m.Kind == jsonrpc.Failure {
			return append(append(dst, `,"error":`...), m.Err...)
		}
		return append(append(dst, `,"result":`...), m.Result...)
	}
	return dst
}

func appendQuestions(dst []byte, questions []engine.TaskQuestion) []byte {
	dst = append(dst, '{')
	for i, q := range questions {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(jsonrpc.AppendString(dst, q.Key), ':'), q.Request...)
	}
	return append(dst, '}')
}

// appendMeta appends the member _meta of a result: who the server is, if the app has said so, and the id of a subscription.
func (srv *Server) appendMeta(dst []byte, subscription string) []byte {
	info := srv.discovered.serverInfo()
	if len(info) == 0 && subscription == "" {
		return dst
	}
	dst = append(dst, `,"_meta":{`...)
	if len(info) > 0 {
		dst = append(append(dst, `"`+metaServerInfo+`":`...), info...)
		if subscription != "" {
			dst = append(dst, ',')
		}
	}
	if subscription != "" {
		dst = append(append(dst, `"`+metaSubscriptionID+`":`...), subscription...)
	}
	return append(dst, '}')
}

// milliseconds rounds up, so that nothing is promised for too short a time.
func milliseconds(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
