package part

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/server"
)

// answerMargin is how long before its caller's deadline a part must finish, so that it can still report what it waits
// for. A late answer is lost. After a few late answers, callers stop calling the whole extension for a while. They do
// so for all clusters, even for those whose API servers respond to the parts in time.
const answerMargin = 2 * time.Second

// Handler is one handler of a part. Create it with [Handle] or [HandleResponse].
type Handler struct {
	of func(frame) server.Handler
}

// frame is what a handler receives when its part is composed with others.
type frame struct {
	part     string
	settings *setting.Table
	log      *slog.Logger
}

// Handle returns a handler. The handler lets a Cluster pass at once if the Cluster's label switches the part off. It
// does so even if the settings are invalid, so that a Cluster can go on although nobody has corrected them. Without a
// label, the settings decide.
func Handle[Req, Resp any, PReq interface {
	*Req
	runtimehooksv1.RequestObject
}, PResp interface {
	*Resp
	runtimehooksv1.ResponseObject
}](of hook.Hook[Req, Resp], name string, function Func[Req], options ...server.Option) Handler {
	return Handler{of: func(f frame) server.Handler {
		return server.Handle(of, name, func(ctx context.Context, request *Req, response *Resp) error {
			cluster, err := clusterOf(PReq(request))
			if err != nil {
				return err
			}
			on, decided, err := byLabel(f.part, cluster)
			if err != nil || !on {
				return err
			}
			settings, err := f.settings.Read(PReq(request).GetSettings())
			if err != nil {
				return err
			}
			if !decided && settings[enabledSetting(f.part)] != "true" {
				return nil
			}
			ctx, cancel := early(ctx)
			defer cancel()
			answer, err := function(ctx, settings, request)
			if err != nil {
				return err
			}
			if err := answer.Err(); err != nil {
				f.log.InfoContext(ctx, "A Cluster is held", "handler", name,
					"cluster", cluster.Namespace+"/"+cluster.Name, "reason", answer.Reason)
				return err
			}
			PResp(response).SetMessage(answer.Message)
			return nil
		}, options...)
	}}
}

// HandleResponse returns a handler for a hook whose answer is more than a message; the function fills in the response.
// If the part is switched off, the call fails: a ClusterClass names the handler, so it cannot be skipped.
func HandleResponse[Req, Resp any, PReq interface {
	*Req
	runtimehooksv1.RequestObject
}](of hook.Hook[Req, Resp], name string,
	function func(ctx context.Context, settings setting.Values, request *Req, response *Resp) error,
	options ...server.Option,
) Handler {
	return Handler{of: func(f frame) server.Handler {
		return server.Handle(of, name, func(ctx context.Context, request *Req, response *Resp) error {
			cluster, err := clusterOf(PReq(request))
			if err != nil {
				return err
			}
			settings, err := f.settings.Read(PReq(request).GetSettings())
			if err != nil {
				return err
			}
			switch on, err := IsOn(f.part, cluster, settings); {
			case err != nil:
				return err
			case !on:
				return fmt.Errorf("%s is switched off for this Cluster, whose ClusterClass names it: switch it on with label %s, "+
					"or remove it from the ClusterClass", f.part, Label(f.part))
			}
			ctx, cancel := early(ctx)
			defer cancel()
			return function(ctx, settings, request, response)
		}, options...)
	}}
}

// early returns a context that is done before the caller's deadline: [answerMargin] or a tenth of the remaining time
// earlier, whichever is shorter.
func early(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline.Add(-min(answerMargin, time.Until(deadline)/10)))
}

// clusterOf returns the Cluster that a hook is about.
func clusterOf(request runtime.Object) (*clusterv1.Cluster, error) {
	switch r := request.(type) {
	case *runtimehooksv1.BeforeClusterCreateRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.AfterControlPlaneInitializedRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.BeforeClusterUpgradeRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.BeforeControlPlaneUpgradeRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.AfterControlPlaneUpgradeRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.BeforeWorkersUpgradeRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.AfterWorkersUpgradeRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.AfterClusterUpgradeRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.BeforeClusterDeleteRequest:
		return &r.Cluster, nil
	case *runtimehooksv1.GenerateUpgradePlanRequest:
		return &r.Cluster, nil
	}
	return nil, fmt.Errorf("a request of type %s is not about a Cluster", strings.TrimPrefix(fmt.Sprintf("%T", request),
		"*"))
}
