module github.com/capstan-dev/capstan/kube

go 1.26.0
