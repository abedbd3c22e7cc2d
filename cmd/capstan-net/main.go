// Command capstan-net connects the pods of a Node with those of other Nodes. It runs as a pod on each owned host.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/agent/podnet"
)

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stderr)) }

func run(args []string, getenv func(string) string, errOut io.Writer) int {
	flags := flag.NewFlagSet("capstan-net", flag.ContinueOnError)
	flags.SetOutput(errOut)
	pods := flags.String("pods", "", "IPv4 `range` of all pods of the cluster, such as 10.244.0.0/16")
	name := flags.String("node", getenv("NODE_NAME"), "`name` of this Node (default: NODE_NAME of the environment)")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	prefix, err := netip.ParsePrefix(*pods)
	if err != nil || !prefix.Addr().Is4() || *name == "" || flags.NArg() > 0 {
		fmt.Fprintln(errOut, "capstan-net: give --pods RANGE, an IPv4 range, and --node NAME; see capstan-net --help")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, podnet.Options{
		Name: *name, Pods: prefix, Log: slog.New(slog.NewTextHandler(errOut, nil)),
	}); err != nil {
		fmt.Fprintln(errOut, "capstan-net:", err)
		return 1
	}
	return 0
}

// serve connects to the API server of the cluster in which this program runs as a pod.
func serve(ctx context.Context, o podnet.Options) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("reaching the API server: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("reaching the API server: %w", err)
	}
	return podnet.Run(ctx, client, o)
}
