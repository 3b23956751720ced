package postgres_test

import (
	"testing"

	"github.com/postrider/postrider/internal/store/storetest"
)

func TestContract(t *testing.T) { storetest.Run(t, open) }

func TestModel(t *testing.T) { storetest.Model(t, open) }

func TestNodes(t *testing.T) {
	storetest.RunNodes(t, func(t *testing.T) storetest.NodeStore { return openAt(t, freshDSN(t)) })
}
