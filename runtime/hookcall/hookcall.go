package hookcall

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/sample"
)

// longestWait bounds the wait that an Answer shows. It is very long because nobody waits here: the Answer shows what
// the handler named.
const longestWait = 365 * 24 * time.Hour

const (
	// DefaultTimeout is how long all calls of one Run may take together.
	DefaultTimeout = 5 * time.Minute
	// maxResponses bounds the total size in bytes of the responses that one Run keeps: one may have 20 MiB, and there may
	// be 512.
	maxResponses = 64 << 20
)

// notCalled is the answer of a handler that was not called in time.
const notCalled record.Answer = "NotCalled"

// Answer is the answer of one handler. Its JSON form is stable.
type Answer struct {
	// Handler is the name of the handler in the ExtensionConfig.
	Handler string `json:"handler"`
	// Answer sums up how the call ended, in the terms of package record; NotCalled if the time was over before the call.
	Answer string `json:"answer"`
	// RetryAfter is the wait that a blocking handler named, as a Go duration such as 30s. Message is the message of its
	// response.
	RetryAfter string `json:"retryAfter,omitempty"`
	Message    string `json:"message,omitempty"`
	// Error is why the call failed; empty if it did not. Took is how long the call took, as a Go duration.
	Error string `json:"error,omitempty"`
	Took  string `json:"took"`
	// Response is the whole answer. If all answers together are too large, it is omitted and Error says so.
	Response json.RawMessage `json:"response,omitempty"`
}

// Failed counts the calls that failed.
func Failed(answers []Answer) int {
	n := 0
	for _, a := range answers {
		if a.Error != "" {
			n++
		}
	}
	return n
}

// Names returns the hooks of Cluster API that can be called manually.
func Names() []string {
	var names []string
	for _, d := range hook.ClusterAPI().All() {
		if d.HasSettings {
			names = append(names, d.ID.Name)
		}
	}
	return names
}

// UnknownHookError reports a hook that Cluster API does not have, or that can't be called manually.
type UnknownHookError struct{ Name string }

// Error names the hook.
func (e *UnknownHookError) Error() string { return fmt.Sprintf("there is no hook %q to call", e.Name) }

// Hint lists the hooks that can be called.
func (e *UnknownHookError) Hint() string {
	return "hooks that can be called: " + strings.Join(Names(), ", ")
}

// Find returns the hook of Cluster API with this name; case does not matter. The error is an [*UnknownHookError].
func Find(name string) (*hook.Descriptor, error) {
	for _, d := range hook.ClusterAPI().All() {
		if strings.EqualFold(d.ID.Name, name) && d.HasSettings {
			return d, nil
		}
	}
	return nil, &UnknownHookError{name}
}

// NoHandlerError reports a hook that none of the extensions handles.
type NoHandlerError struct{ Hook string }

// Error names the hook.
func (e *NoHandlerError) Error() string {
	return fmt.Sprintf("no extension has a handler of hook %s to call", e.Hook)
}

// Hint says where handlers are listed.
func (e *NoHandlerError) Hint() string { return "see: capstan hook list" }

// Options select the handlers to call.
type Options struct {
	// Extensions are registered ExtensionConfigs; their handlers are read from the status.
	Extensions []runtimev1.ExtensionConfig
	// Server is an additional extension, which is first asked for its handlers; nil: none.
	Server *runtimev1.ExtensionConfig
	// Handler is the only handler to call; empty: all of the hook.
	Handler string
	// Reader reads the Namespace of the Cluster, for extensions with a namespaceSelector. Default: their calls fail.
	Reader ctrlclient.Reader
	// Certificate returns the client certificate for servers that request one. Default: none.
	Certificate func() (*tls.Certificate, error)
	// Timeout bounds the total time of all calls. Handlers that are not called in time are in the answers as failures.
	// Default: DefaultTimeout.
	Timeout time.Duration
}

// Run calls the handlers of a hook in turn, by name, with one request for this Cluster, and returns their answers. A
// failed call also yields an answer. The error is a [*NoHandlerError] if there is no handler to call.
func Run(ctx context.Context, descriptor *hook.Descriptor, cluster *clusterv1.Cluster, o Options) ([]Answer, error) {
	object, err := sample.Request(descriptor, cluster)
	if err != nil {
		return nil, err
	}
	request, ok := object.(runtimehooksv1.RequestObject)
	if !ok {
		return nil, fmt.Errorf("hook %s can't be called by hand", descriptor.ID.Name)
	}
	r := &runner{hook: descriptor, cluster: cluster, request: request}
	r.client, err = client.New(client.Options{
		Observer: r.observe, MaxRetryAfter: longestWait, Reader: o.Reader, Certificate: o.Certificate,
	})
	if err != nil {
		return nil, err
	}
	defer r.client.Close()
	extensions := slices.Clone(o.Extensions)
	if o.Server != nil {
		discovered, err := r.client.Discover(ctx, o.Server)
		if err != nil {
			return nil, err
		}
		extensions = append(extensions, *discovered)
	}
	if err := r.client.WarmUp(&runtimev1.ExtensionConfigList{Items: extensions}); err != nil {
		return nil, err
	}
	handlers := handlersOf(extensions, descriptor.ID.Name, o.Handler)
	if len(handlers) == 0 {
		return nil, &NoHandlerError{descriptor.ID.Name}
	}
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(o.Timeout, DefaultTimeout))
	defer cancel()
	answers := make([]Answer, 0, len(handlers))
	for _, handler := range handlers {
		if bounded.Err() != nil {
			answers = append(answers, Answer{
				Handler: handler, Answer: string(notCalled), Took: "0s",
				Error: "it was not called: the time for all calls ran out",
			})
			continue
		}
		answers = append(answers, r.call(bounded, handler))
	}
	return answers, nil
}

// handlersOf returns the handlers of a hook, sorted. If name is not empty, it returns only the handler of that name.
func handlersOf(extensions []runtimev1.ExtensionConfig, hook, name string) []string {
	var handlers []string
	for _, config := range extensions {
		for _, h := range config.Status.Handlers {
			if h.RequestHook.Hook == hook && (name == "" || name == h.Name) {
				handlers = append(handlers, h.Name)
			}
		}
	}
	slices.Sort(handlers)
	return handlers
}

// runner calls the handlers of one hook with one request.
type runner struct {
	client  *client.Client
	hook    *hook.Descriptor
	cluster *clusterv1.Cluster
	request runtimehooksv1.RequestObject
	seen    []record.Call // by the observer, since the last call began
	kept    int           // bytes of responses
}

func (r *runner) observe(c record.Call) { r.seen = append(r.seen, c) }

// call calls one handler.
func (r *runner) call(ctx context.Context, handler string) Answer {
	r.seen = nil
	answer := r.ask(ctx, handler)
	if len(r.seen) > 0 {
		answer.Answer, answer.Took = string(r.seen[0].Answer), rounded(r.seen[0].Duration)
		if wait := r.seen[0].RetryAfter; wait > 0 {
			answer.RetryAfter = wait.String()
		}
	}
	return answer
}

// ask calls one handler, and returns what the response says.
func (r *runner) ask(ctx context.Context, handler string) Answer {
	answer := Answer{Handler: handler}
	response := r.hook.NewResponse()
	start := time.Now()
	err := r.client.CallExtension(ctx, described{r.hook}, r.cluster, handler, r.request, response)
	answer.Took = rounded(time.Since(start))
	if err != nil {
		answer.Answer, answer.Error = string(record.Failure), err.Error()
		if called := new(client.CallError); errors.As(err, &called) {
			answer.Error = called.Err.Error() // hook and handler are known already
		}
		return answer
	}
	answer.Message = response.GetMessage()
	data, err := json.Marshal(response)
	switch {
	case err != nil:
		answer.Error = err.Error()
	case r.kept+len(data) > maxResponses:
		answer.Error = fmt.Sprintf("the response is left out: all together have more than %d bytes; call it alone",
			maxResponses)
	default:
		r.kept += len(data)
		answer.Response = data
	}
	return answer
}

func rounded(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }

// described is a hook without its types; the catalog finds it by its descriptor.
type described struct{ descriptor *hook.Descriptor }

// Descriptor returns the descriptor of the hook.
func (d described) Descriptor() *hook.Descriptor { return d.descriptor }
