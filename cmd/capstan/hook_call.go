package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/local"
	"github.com/capstan-dev/capstan/runtime/hookcall"
	"github.com/capstan-dev/capstan/runtime/sample"
)

// hookCall holds the flags of capstan hook call.
type hookCall struct {
	server  hookServer
	cluster string
	file    string
	handler string
	format  string
	timeout time.Duration
}

func (a *app) hookCallCommand() *cobra.Command {
	var call hookCall
	cmd := &cobra.Command{
		Use: "call HOOK", Short: "Call a hook once, and show each handler's answer and its duration",
		Long: `Call the handlers of a hook with one request, as Cluster API would, and print their answers.

The request is built from a Cluster of the management plane (--cluster), from one in a file (-f, - for the standard
input), or from a sample. The handlers are those of the installed extensions, or of a server (--url). The calls are
real, and so are their side effects.`,
		Example: `  capstan hook call BeforeClusterUpgrade --cluster demo
  capstan hook call GeneratePatches --url https://127.0.0.1:9443 --ca-file ca.crt -f cluster.yaml -o json`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return hookcall.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.callHook(cmd.Context(), args[0], call) },
	}
	call.server.flags(cmd)
	cmd.Flags().StringVar(&call.server.url, "url", "", "call this server instead of the installed extensions")
	cmd.Flags().StringVar(&call.cluster, "cluster", "", "build the request from this Cluster")
	cmd.Flags().StringVarP(&call.file, "file", "f", "", "build the request from the Cluster in this file")
	cmd.Flags().StringVar(&call.handler, "handler", "",
		"call only the handler with this name; \"capstan hook list\" shows the names")
	cmd.Flags().DurationVar(&call.timeout, "timeout", hookcall.DefaultTimeout, "time limit for all calls together")
	outputFlag(cmd, &call.format)
	cmd.MarkFlagsMutuallyExclusive("cluster", "file")
	_ = cmd.RegisterFlagCompletionFunc("cluster", a.completeCluster)
	return cmd
}

func (a *app) callHook(ctx context.Context, name string, call hookCall) (err error) {
	descriptor, err := hookcall.Find(name)
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
	options, release, err := a.hookOptions(ctx, plane, call)
	if err != nil {
		return err
	}
	answers, err := hookcall.Run(ctx, descriptor, cluster, options)
	if left := release(); err != nil {
		return errors.Join(err, left)
	} else if left != nil {
		defer fmt.Fprintf(a.err, "Warning: %v\n", left)
	}
	if err := a.print(call.format, answers, func() error { return a.hookAnswerTable(answers) }); err != nil {
		return err
	}
	if failed := hookcall.Failed(answers); failed > 0 {
		return fmt.Errorf("%d of %d handlers of hook %s failed", failed, len(answers), descriptor.ID.Name)
	}
	return nil
}

func (a *app) clusterForHook(ctx context.Context, plane ctrlclient.Client, call hookCall) (*clusterv1.Cluster, error) {
	switch {
	case call.cluster != "":
		return a.cluster(ctx, plane, call.cluster)
	case call.file != "":
		data, err := a.readInput(call.file)
		if err != nil {
			return nil, fmt.Errorf("reading the Cluster: %w", err)
		}
		return hookcall.ParseCluster(data, call.file, a.namespace)
	}
	return sample.Cluster(), nil
}

// hookOptions returns whom to call: the named server, or the extensions of the plane. The caller must call release.
func (a *app) hookOptions(ctx context.Context, plane ctrlclient.Client, call hookCall) (
	o hookcall.Options, release func() error, err error,
) {
	o = hookcall.Options{Handler: call.handler, Timeout: call.timeout}
	own, err := call.server.certificate()
	if err != nil {
		return o, nil, err
	}
	if own != nil {
		o.Certificate = func() (*tls.Certificate, error) { return own, nil }
	}
	if call.server.url != "" {
		o.Server, err = call.server.config()
		return o, func() error { return nil }, err
	}
	o.Reader = plane
	if own == nil {
		o.Certificate = func() (*tls.Certificate, error) { return local.UserCertificate(a.home.Kubeconfig()) }
	}
	o.Extensions, release, err = local.ReachInstalled(ctx, string(a.home), plane)
	return o, release, err
}

func (a *app) hookAnswerTable(answers []hookcall.Answer) error {
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
