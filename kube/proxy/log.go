package proxy

import (
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// logHandler writes what routes say where kube-proxy writes.
func logHandler() slog.Handler { return logr.ToSlogHandler(klog.Background().WithName("routes")) }
