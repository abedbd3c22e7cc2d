// Command capstan-extension serves the runtime extension that Capstan ships: capacity, maintenance windows, add-ons, verification, backups. See package
// extension.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	_ "golang.org/x/crypto/x509roots/fallback" // the image has no authorities, and a bucket may have a certificate of a public one
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	log.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil))) // what the client's library says; once in a process
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
