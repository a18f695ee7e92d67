"""A warehouse small enough to add up by hand: ten orders, thirteen lines, six returns.

Times are UTC, as stored; the local day, where another, stands beside them.
"""

import pandas as pd

from nlqlib.nlq.warehouse import Warehouse, warehouse_of

CUSTOMERS = [  # two share a name; the last one never buys
    (1, "Ann Lee", "Consumer"),
    (2, "Ann Lee", "Corporate"),
    (3, "Bo O'Neil", "Consumer"),
    (4, "Cy Diaz", "Education"),
]
PRODUCTS = [
    (1, "Linen Throw", "Home"),
    (2, "Kite", "Toys"),
    (3, "Chef's Knife", "Home"),
    (4, "Gift Card", None),
    (5, "USB-C Hub", "Electronics"),
]
ORDERS = [
    (1, 1, "2024-01-10 15:00", "West", "Web", "completed"),
    (2, 2, "2024-02-01 04:30", "West", "Store", "completed"),  # 31 January 23:30
    (3, 3, "2024-02-01 05:00", "East", "Web", "completed"),  # 1 February 00:00
    (4, 1, "2024-02-15 12:00", None, "Web", "completed"),
    (5, 3, "2024-02-20 12:00", "East", "Store", "cancelled"),
    (6, 2, "2024-03-05 12:00", None, "Phone", "completed"),
    (7, 3, "2024-05-01 03:59", "East", "Web", "completed"),  # 30 April 23:59, summer time
    (8, 1, "2024-05-20 12:00", "West", "Web", "completed"),
    (9, 2, "2025-01-01 03:00", "South", "Store", "completed"),  # 31 December 2024 22:00
    (10, 1, "2025-06-16 03:30", "West", "Web", "completed"),  # 15 June 23:30, today
]
LINES = [  # line, order, product, quantity, net amount, cost
    (1, 1, 1, 2, "40.00", "25.00"),
    (2, 1, 2, 1, "15.00", "10.00"),
    (3, 2, 1, 1, "20.00", "12.50"),
    (4, 3, 2, 3, "45.00", "30.00"),
    (5, 4, 4, 1, "50.00", "50.00"),
    (6, 5, 1, 5, "100.00", "60.00"),  # cancelled
    (7, 6, 5, 2, "30.00", "18.00"),
    (8, 6, 2, 1, "15.00", "10.00"),
    (9, 7, 1, 4, "80.00", "50.00"),
    (10, 8, 4, 2, "100.00", "90.00"),
    (11, 9, 3, 1, "60.00", "33.00"),
    (12, 10, 5, 1, "15.00", "9.00"),
    (13, 10, 1, 1, "20.00", "12.50"),
]
RETURNS = [  # return, line, time, quantity, refund, reason
    (1, 1, "2024-01-20 12:00", 1, "20.00", "Damaged"),
    (2, 1, "2024-02-05 12:00", 1, "18.00", "Late"),  # the same line again
    (3, 4, "2024-02-10 12:00", 2, "30.00", "Damaged"),
    (4, 7, "2024-04-01 03:30", 1, "15.00", "Defective"),  # 31 March 23:30
    (5, 9, "2024-06-03 12:00", 1, "20.00", "Changed Mind"),
    (6, 11, "2025-01-05 12:00", 1, "60.00", "Damaged"),
]
COLUMNS = {
    "customers": "customer_id name segment",
    "products": "product_id name category",
    "orders": "order_id customer_id ordered_at region channel status",
    "order_lines": "line_id order_id product_id quantity net_amount cost",
    "returns": "return_id line_id returned_at quantity refund_amount reason",
}


def tiny_frames() -> dict[str, pd.DataFrame]:
    """The five tables."""
    rows = dict(zip(COLUMNS, (CUSTOMERS, PRODUCTS, ORDERS, LINES, RETURNS), strict=True))
    tables = {name: pd.DataFrame(rows[name], columns=COLUMNS[name].split()) for name in COLUMNS}
    for name, column in (("orders", "ordered_at"), ("returns", "returned_at")):
        tables[name][column] = pd.to_datetime(tables[name][column])
    return tables


def tiny_warehouse() -> Warehouse:
    """The tables in memory."""
    return warehouse_of(tiny_frames())
