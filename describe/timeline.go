package describe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/record"
)

// Timeline is what lifecycle hooks did. Its JSON form is stable.
type Timeline struct {
	// Calls are the calls made, oldest first.
	Calls []record.Call `json:"calls"`
	// Blocked is what hooks block now.
	Blocked []Blocked `json:"blocked"`
}

// Blocked is a block, and how it ends.
type Blocked struct {
	record.Block

	// GoesOnWhen says what ends the block.
	GoesOnWhen string `json:"goesOnWhen"`
	// Unblock is the command that overrides the block.
	Unblock string `json:"unblock"`
}

// TimelineOf returns the timeline of calls. It includes a block only if the function counts returns true for the call
// that blocks.
func TimelineOf(calls []record.Call, counts func(record.Call) bool) Timeline {
	return Timeline{Calls: calls, Blocked: blockedNow(calls, counts)}
}

// blockedNow returns the blocks that are in effect after the calls. It leaves out a block if the function counts
// returns false for its call.
func blockedNow(calls []record.Call, counts func(record.Call) bool) []Blocked {
	shown := []Blocked{}
	for _, b := range record.Blocks(calls) {
		if counts(b.Call) {
			shown = append(shown, withWayOut(b))
		}
	}
	return shown
}

// withWayOut returns a block with a text that says what ends it, and with the command that overrides it.
func withWayOut(b record.Block) Blocked {
	o, command := b.Call.Object, "capstan "
	if o.Namespace != "" && o.Namespace != metav1.NamespaceDefault {
		command += "-n " + o.Namespace + " "
	}
	command += "hook unblock " + o.Name + " " + b.Call.HookName() + ` --reason "..."`
	return Blocked{Block: b, GoesOnWhen: wayOut(b.Call), Unblock: command}
}

// wayOut says what ends a block.
func wayOut(call record.Call) string {
	switch {
	case call.NotAsked:
		return "the extension answers again: it is not called for a while, because its last calls failed"
	case call.Answer == record.Failure:
		return "a call succeeds: look at the extension; Capstan keeps trying"
	}
	again := max(call.RetryAfter, time.Second).Round(time.Second)
	return fmt.Sprintf("the handler lets it through; it is asked again within %s", again)
}

// StillAsked reads which clusters and handlers exist. The function that it returns reports whether the cluster of a
// call still exists and its handler is still called. Other calls cannot block anything any more.
func StillAsked(ctx context.Context, c client.Reader) (func(record.Call) bool, error) {
	clusters, extensions := &clusterv1.ClusterList{}, &runtimev1.ExtensionConfigList{}
	if err := errors.Join(c.List(ctx, clusters), c.List(ctx, extensions)); err != nil {
		return nil, fmt.Errorf("listing clusters and extensions: %w", err)
	}
	return stillAsked(clusters.Items, extensions.Items), nil
}

// stillAsked does what StillAsked does, with clusters and extensions that were already read.
func stillAsked(clusters []clusterv1.Cluster, extensions []runtimev1.ExtensionConfig) func(record.Call) bool {
	there := map[record.Object]bool{}
	for _, cluster := range clusters {
		there[record.Object{Kind: "Cluster", Namespace: cluster.Namespace, Name: cluster.Name}] = true
	}
	handlers := map[string][]string{} // names of handlers, by extension
	for _, e := range extensions {
		names := []string{}
		for _, h := range e.Status.Handlers {
			names = append(names, h.Name)
		}
		handlers[e.Name] = names
	}
	return func(call record.Call) bool {
		names, registered := handlers[call.Extension]
		// Before discovery, the names of the handlers are unknown.
		asked := registered && (len(names) == 0 || slices.Contains(names, call.Handler+"."+call.Extension))
		return asked && (call.Object.Kind != "Cluster" || there[call.Object])
	}
}
