// Command capstan-extension serves Capstan's runtime extension: capacity, maintenance windows, add-ons, verification,
// backups. See package extension.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	// the image has no CA certificates, and a bucket may use a public certificate
	_ "golang.org/x/crypto/x509roots/fallback"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	// the logger of the client library; set once per process
	log.SetLogger(logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
