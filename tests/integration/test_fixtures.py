"""The fixtures themselves: what other tests rely on."""

from __future__ import annotations

import asyncio

from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.brokers.under_test import BrokerUnderTest, delete_topics


async def names(broker: BrokerUnderTest) -> list[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        return await admin.list_topics()
    finally:
        await admin.close()


def test_the_topics_of_a_prefix_are_deleted(broker: BrokerUnderTest, topic_prefix: str) -> None:
    async def main() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(f"{topic_prefix}a", 1, 1), NewTopic(f"other-{topic_prefix}a", 1, 1)])
        await delete_topics(broker.bootstrap, topic_prefix)
        assert [name for name in await names(broker) if topic_prefix in name] == [f"other-{topic_prefix}a"]
        await admin.delete_topics([f"other-{topic_prefix}a"])
        await admin.close()

    asyncio.run(main())
