package proxy

import (
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// logHandler writes the messages about routes to kube-proxy's log.
func logHandler() slog.Handler { return logr.ToSlogHandler(klog.Background().WithName("routes")) }
