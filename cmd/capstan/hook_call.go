package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/plane/hooks"
	"github.com/capstan-dev/capstan/runtime/client"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/record"
	"github.com/capstan-dev/capstan/runtime/sample"
)

// hookAnswer is one call as capstan hook call shows it.
type hookAnswer struct {
	Handler    string          `json:"handler"`
	Answer     string          `json:"answer"`
	RetryAfter string          `json:"retryAfter,omitempty"`
	Message    string          `json:"message,omitempty"`
	Error      string          `json:"error,omitempty"`
	Took       string          `json:"took"`
	Response   json.RawMessage `json:"response,omitempty"`
}

type hookCall struct {
	server  hookServer
	cluster string
	file    string
	handler string
	format  string
}

func (a *app) hookCallCommand() *cobra.Command {
	var call hookCall
	cmd := &cobra.Command{
		Use: "call HOOK", Short: "Call a hook once and see who answers what, and how fast", Args: cobra.ExactArgs(1),
		Long: `Call the handlers of a hook with one request, as Cluster API would, and print their answers.

The request is made from a Cluster of the management plane (--cluster), from one in a file (-f, - for the input), or from a sample. The handlers are those
of the installed extensions, or of a server (--url). They are really called: what they do outside of their answer, they do.`,
		Example: `  capstan hook call BeforeClusterUpgrade --cluster demo
  capstan hook call GeneratePatches --url https://127.0.0.1:9443 --ca-file ca.crt -f cluster.yaml -o json`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return hookNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.callHook(cmd.Context(), args[0], call) },
	}
	call.server.flags(cmd)
	cmd.Flags().StringVar(&call.server.url, "url", "", "call this server instead of the installed extensions")
	cmd.Flags().StringVar(&call.cluster, "cluster", "", "make the request from this Cluster")
	cmd.Flags().StringVarP(&call.file, "file", "f", "", "make the request from the Cluster in this file")
	cmd.Flags().StringVar(&call.handler, "handler", "", "call this handler only, by the name that capstan hook list shows")
	outputFlag(cmd, &call.format)
	cmd.MarkFlagsMutuallyExclusive("cluster", "file")
	_ = cmd.RegisterFlagCompletionFunc("cluster", a.completeCluster)
	return cmd
}

func hookNames() []string {
	var names []string
	for _, d := range hook.ClusterAPI().All() {
		if d.HasSettings {
			names = append(names, d.ID.Name)
		}
	}
	return names
}

// hookByName finds a hook of Cluster API; case does not matter.
func hookByName(name string) (*hook.Descriptor, error) {
	for _, d := range hook.ClusterAPI().All() {
		if strings.EqualFold(d.ID.Name, name) && d.HasSettings {
			return d, nil
		}
	}
	return nil, hint("hooks that can be called: "+strings.Join(hookNames(), ", "), "there is no hook %q to call", name)
}

func (a *app) callHook(ctx context.Context, name string, call hookCall) error {
	descriptor, err := hookByName(name)
	if err != nil {
		return err
	}
	var plane ctrlclient.Client
	if call.server.url == "" || call.cluster != "" {
		if plane, err = a.client(); err != nil {
			return err
		}
	}
	cluster, err := a.clusterForHook(ctx, plane, call)
	if err != nil {
		return err
	}
	object, err := sample.Request(descriptor, cluster)
	if err != nil {
		return err
	}
	request, ok := object.(runtimehooksv1.RequestObject)
	if !ok {
		return fmt.Errorf("hook %s can't be called by hand", descriptor.ID.Name)
	}
	var told []record.Call
	calls, handlers, release, err := a.hookClient(ctx, plane, call, descriptor, func(c record.Call) { told = append(told, c) })
	if err != nil {
		return err
	}
	defer func() {
		calls.Close()
		if err := release(); err != nil {
			fmt.Fprintf(a.err, "Warning: %v\n", err)
		}
	}()
	answers := []hookAnswer{}
	failed := 0
	for _, handler := range handlers {
		told = nil
		answer := callHandler(ctx, calls, descriptor, cluster, handler, request)
		if len(told) > 0 {
			answer.Answer, answer.Took = string(told[0].Answer), told[0].Duration.Round(100*time.Microsecond).String()
			if told[0].RetryAfter > 0 {
				answer.RetryAfter = told[0].RetryAfter.String()
			}
		}
		if answer.Error != "" {
			failed++
		}
		answers = append(answers, answer)
	}
	if err := a.print(call.format, answers, func() error { return a.hookAnswerTable(answers) }); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d handlers of hook %s failed", failed, len(answers), descriptor.ID.Name)
	}
	return nil
}

func (a *app) clusterForHook(ctx context.Context, plane ctrlclient.Client, call hookCall) (*clusterv1.Cluster, error) {
	switch {
	case call.cluster != "":
		return a.cluster(ctx, plane, call.cluster)
	case call.file != "":
		return a.readCluster(call.file)
	}
	return sample.Cluster(), nil
}

// maxInput bounds what is read from a file or the input.
const maxInput = 20 << 20

// readInput reads a file, or the input for "-".
func (a *app) readInput(path string) ([]byte, error) {
	in := a.in
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err == nil && len(data) > maxInput {
		err = fmt.Errorf("%s has more than %d bytes", path, maxInput)
	}
	return data, err
}

func (a *app) readCluster(path string) (*clusterv1.Cluster, error) {
	data, err := a.readInput(path)
	if err != nil {
		return nil, fmt.Errorf("reading the Cluster: %w", err)
	}
	cluster := &clusterv1.Cluster{}
	if err := yaml.Unmarshal(data, cluster); err != nil {
		return nil, fmt.Errorf("reading the Cluster in %s: %w", path, err)
	}
	if cluster.APIVersion != clusterv1.GroupVersion.String() || cluster.Kind != "Cluster" {
		return nil, hint("give a file with one Cluster of "+clusterv1.GroupVersion.String(), "%s holds a %q of %q", path, cluster.Kind, cluster.APIVersion)
	}
	if cluster.Namespace == "" {
		cluster.Namespace = a.namespace
	}
	return cluster, nil
}

// hookClient gives a client that knows the extensions, and the names of the handlers to call. When both are done with, release must be called.
func (a *app) hookClient(ctx context.Context, plane ctrlclient.Client, call hookCall, descriptor *hook.Descriptor, observer func(record.Call)) (
	calls *client.Client, handlers []string, release func() error, err error,
) {
	options := client.Options{Observer: observer, MaxRetryAfter: 365 * 24 * time.Hour}
	undo := func() error { return nil }
	var configs []runtimev1.ExtensionConfig
	if call.server.url == "" {
		options.Reader, options.Certificate = plane, a.planeCertificate
		if configs, err = hooks.Installed(ctx, plane); err != nil {
			return nil, nil, nil, err
		}
		if undo, err = a.reachExtensions(ctx, configs); err != nil {
			return nil, nil, nil, err // it has undone what it did
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, undo())
		}
	}()
	if own, err := call.server.certificate(); err != nil {
		return nil, nil, nil, err
	} else if own != nil {
		options.Certificate = func() (*tls.Certificate, error) { return own, nil }
	}
	if calls, err = client.New(options); err != nil {
		return nil, nil, nil, err
	}
	if call.server.url != "" {
		config, err := call.server.config()
		if err != nil {
			return nil, nil, nil, err
		}
		discovered, err := calls.Discover(ctx, config)
		if err != nil {
			return nil, nil, nil, err
		}
		configs = append(configs, *discovered)
	}
	if err := calls.WarmUp(&runtimev1.ExtensionConfigList{Items: configs}); err != nil {
		return nil, nil, nil, err
	}
	for _, config := range configs {
		for _, h := range config.Status.Handlers {
			if h.RequestHook.Hook == descriptor.ID.Name && (call.handler == "" || call.handler == h.Name) {
				handlers = append(handlers, h.Name)
			}
		}
	}
	slices.Sort(handlers)
	if len(handlers) == 0 {
		return nil, nil, nil, hint("see: capstan hook list", "no extension has a handler of hook %s to call", descriptor.ID.Name)
	}
	return calls, handlers, undo, nil
}

func callHandler(ctx context.Context, calls *client.Client, descriptor *hook.Descriptor, cluster *clusterv1.Cluster, handler string, request runtimehooksv1.RequestObject) hookAnswer {
	answer := hookAnswer{Handler: handler}
	response := descriptor.NewResponse()
	start := time.Now()
	err := calls.CallExtension(ctx, described{descriptor}, cluster, handler, request, response)
	answer.Took = time.Since(start).Round(100 * time.Microsecond).String()
	if err != nil {
		answer.Answer, answer.Error = string(record.Failure), err.Error()
		if called := new(client.CallError); errors.As(err, &called) {
			answer.Error = called.Err.Error() // the table names hook and handler already
		}
		return answer
	}
	answer.Message = response.GetMessage()
	if answer.Response, err = json.Marshal(response); err != nil {
		answer.Error = err.Error()
	}
	return answer
}

// described stands for a hook without its types, which the catalog finds it by.
type described struct{ descriptor *hook.Descriptor }

// Descriptor makes it a hook.
func (d described) Descriptor() *hook.Descriptor { return d.descriptor }

func (a *app) hookAnswerTable(answers []hookAnswer) error {
	rows := make([][]string, 0, len(answers))
	for _, r := range answers {
		text := r.Message
		if r.Error != "" {
			text = r.Error
		}
		rows = append(rows, []string{r.Handler, r.Answer, dash(r.RetryAfter), r.Took, dash(oneLine(text, 400))})
	}
	return a.table([]string{"HANDLER", "ANSWER", "RETRY AFTER", "TOOK", "MESSAGE"}, rows)
}
