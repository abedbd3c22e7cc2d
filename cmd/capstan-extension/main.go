// Command capstan-extension serves the runtime extension that Capstan ships: capacity, maintenance windows, add-ons,
// verification, backups. See package extension.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	// the image has no authorities, and a bucket may have a certificate of a public one
	_ "golang.org/x/crypto/x509roots/fallback"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	// what the client's library says; once in a process
	log.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
